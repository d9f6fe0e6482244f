"""Landed files reach another landing folder whole, under their names, and once is enough."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.errors import PipelineError
from penstock.pipeline.lake.storage import Storage, StoredFile
from penstock.pipeline.ops.ship import Shipped, ship_landed
from tests.pipeline.landing_place import Place
from tests.support.processes import POLL_S, RunningProgram, running

DEADLINE_S = 60.0
DAY_US = 86_400_000_000
NAME = "date=2026-11-15/hour=12/edge-1-b1-1.jsonl"


def land(folder: Path, name: str, data: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_closed_files_are_sent_once_and_go_after_a_while(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    landing, target = Storage(here), Storage(there.as_uri())
    land(here, NAME, b"facts\n")
    land(here, "date=2026-11-15/hour=12/.edge-1-b1-9.jsonl", b"being written")

    assert ship_landed(landing, target, now_us=DAY_US) == Shipped(files=1, bytes=6, removed=0)
    assert ship_landed(landing, target, now_us=DAY_US) == Shipped(files=0, bytes=0, removed=0)
    assert names(there) == [NAME]
    assert (there / NAME).read_bytes() == b"facts\n"

    assert ship_landed(landing, target, now_us=3 * DAY_US - 1).removed == 0
    assert ship_landed(landing, target, now_us=3 * DAY_US).removed == 1
    assert names(here) == [".shipped/files.json", "date=2026-11-15/hour=12/.edge-1-b1-9.jsonl"]
    assert names(there) == [NAME]


def test_a_file_that_the_server_gives_up_meanwhile_keeps_no_other_from_being_sent(tmp_path: Path) -> None:
    class OnceListed(Storage):
        def find(self, folder: str, *, recursive: bool = True) -> list[StoredFile]:
            gone = StoredFile("date=2026-11-15/hour=11/edge-1-b1-0.jsonl", 6, 0)
            return [gone, *super().find(folder, recursive=recursive)]

    here, there = tmp_path / "here", tmp_path / "there"
    land(here, NAME, b"facts\n")
    sent = ship_landed(OnceListed(here), Storage(there), now_us=DAY_US)
    assert sent == Shipped(files=1, bytes=6, removed=0)
    assert names(there) == [NAME]


@pytest.mark.parametrize("damage", [None, b"", b"[]", b'{"a'])
def test_a_file_whose_note_is_lost_is_sent_again_and_replaces_itself(tmp_path: Path, damage: bytes | None) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    land(here, NAME, b"facts\n")
    ship_landed(Storage(here), Storage(there), now_us=DAY_US)
    note = here / ".shipped/files.json"
    note.unlink() if damage is None else note.write_bytes(damage)
    assert ship_landed(Storage(here), Storage(there), now_us=DAY_US).files == 1
    assert names(there) == [NAME]


def test_a_target_that_takes_nothing_is_told_and_loses_nothing(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    land(here, NAME, b"facts\n")
    there.write_bytes(b"a file where a folder should be")
    with pytest.raises(PipelineError, match=r"ship: .*there does not take date=2026-11-15"):
        ship_landed(Storage(here), Storage(there), now_us=DAY_US)
    there.unlink()
    assert ship_landed(Storage(here), Storage(there), now_us=DAY_US).files == 1


CONFIG = """
[server]
id = "{server}"
[facts]
rotate_s = 1
[ship]
to = "{to}"
every_s = 1
"""


@contextmanager
def shipping_server(folder: Path, command: str, to: str) -> Iterator[RunningProgram]:
    """A server of its own data folder that ships, from its start to its end by SIGTERM."""
    folder.mkdir()
    (folder / "penstock.toml").write_text(CONFIG.format(server=folder.name, to=to), encoding="utf-8")
    places = ["--rtmp", "127.0.0.1:0", "--http", "none", "--data", str(folder / "data")]
    words = [sys.executable, "-m", "penstock", command, "--config", str(folder / "penstock.toml"), *places]
    with running(words, folder / "server.log") as program:
        program.wait_for_log("server started", DEADLINE_S)
        yield program
        program.process.terminate()
        assert program.wait_for_exit(DEADLINE_S) == 0, program.log_text()


def wait_until(is_true: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < give_up_at
        time.sleep(POLL_S)


def test_two_servers_ship_into_one_lake_and_a_file_sent_again_counts_once(tmp_path: Path, spark: SparkSession) -> None:
    place = Place(tmp_path / "shared", spark)
    first, second = tmp_path / "edge-1", tmp_path / "edge-2"
    target = place.facts.as_uri()
    with shipping_server(first, "serve", target), shipping_server(second, "up", target):
        wait_until(lambda: {path.name[:6] for path in place.facts.rglob("*.jsonl")} >= {"edge-1", "edge-2"})
    for server in (first, second):
        facts = server / "data" / "facts"
        landed = [name for name in names(facts) if not name.startswith(".shipped")]
        assert set(landed) <= set(names(place.facts)), "what lands last is shipped before the end"
        log = (server / "server.log").read_text(encoding="utf-8")
        assert "WARNING" not in log
        assert "pipeline started" not in log, "the lake elsewhere has one"

    def carried() -> list[tuple[str, str]]:
        place.ingest(time.time_ns() // 1000)
        kinds = ("server_started", "server_stopped")
        return sorted((kind, server) for kind in kinds for (server,) in place.rows(kind, "server_id"))

    once = [(kind, server) for kind in ("server_started", "server_stopped") for server in ("edge-1", "edge-2")]
    assert carried() == once
    facts = first / "data" / "facts"
    (facts / ".shipped" / "files.json").unlink()
    assert ship_landed(Storage(facts), place.landing, time.time_ns() // 1000).files > 0
    assert carried() == once


def test_a_server_whose_target_is_out_of_reach_says_so_once_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"a file where a folder should be")
    with shipping_server(tmp_path / "edge-1", "serve", str(tmp_path / "there")) as program:
        program.wait_for_log("facts are not shipped and wait here", DEADLINE_S)
        (tmp_path / "there").unlink()
        program.wait_for_log("facts are shipped again", DEADLINE_S)
    assert names(tmp_path / "there")
    assert program.log_text().count("facts are not shipped") == 1
