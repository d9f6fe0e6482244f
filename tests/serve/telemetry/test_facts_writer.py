"""Facts on their way to the disk: real files, a disk that fills or stalls, and what a crash leaves behind."""

import dataclasses
import errno
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.facts import ConnectionOpened, Envelope, LimitHit
from penstock.serve.boot import Boot
from penstock.serve.settings import FileModes
from penstock.serve.telemetry.facts_writer import FactClock, FactsLimits, FactsWriter
from tests.serve.live_server import wait_until

BOOT = Boot("b0a7", "b0a7")
QUICK = FactsLimits(flush_s=0.01, rotate_s=60.0)
BOOT_WALL_US = 1_763_164_799_500_000  # 2025-11-14 23:59:59.5 UTC


class Clock:
    """A clock that stands still unless it is told to go on."""

    def __init__(self) -> None:
        self.mono_us = 5_000_000
        self.wall_us = BOOT_WALL_US

    def fact_clock(self) -> FactClock:
        return FactClock(lambda: self.mono_us * 1000, lambda: self.wall_us * 1000)

    def go_on(self, us: int) -> None:
        self.mono_us += us
        self.wall_us += us


def hit(number: int = 1) -> LimitHit:
    return LimitHit("connections", number, "full")


def landed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.jsonl") if not path.name.startswith("."))


def hidden(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".*.jsonl"))


def lines_of(*paths: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[FactsWriter]:
    made = FactsWriter(tmp_path, "edge-1", BOOT, QUICK, clock=Clock().fact_clock())
    made.start()
    yield made
    made.close()


def test_a_line_is_the_envelope_and_then_the_fact(tmp_path: Path, writer: FactsWriter) -> None:
    assert writer.emit(ConnectionOpened("c-1", "192.0.2.1:5000", "rtmp")) == "edge-1-b0a7-1"
    assert writer.close()
    (path,) = landed(tmp_path)
    assert path.read_bytes() == (
        b'{"event_id":"edge-1-b0a7-1","server_id":"edge-1","boot_id":"b0a7","seq":1,"kind":"connection_opened",'
        b'"version":1,"at_us":1763164799500000,"mono_us":5000000,"worker":1,'
        b'"conn_id":"c-1","peer_addr":"192.0.2.1:5000","protocol":"rtmp"}\n'
    )


def test_a_line_has_exactly_the_fields_of_the_contract(tmp_path: Path, writer: FactsWriter) -> None:
    writer.emit(hit())
    writer.close()
    (line,) = lines_of(*landed(tmp_path))
    expected = [field.name for kind in (Envelope, LimitHit) for field in dataclasses.fields(kind)]
    assert list(line) == expected


@given(text=st.text(st.characters(exclude_categories=["Cs"])), server_id=st.text(st.sampled_from("a%-_."), min_size=1))
def test_any_text_comes_back_as_it_was(text: str, server_id: str) -> None:
    writer = FactsWriter(Path("never opened"), server_id, BOOT, clock=Clock().fact_clock())
    writer.emit(LimitHit(text, 1, text))
    line = json.loads(writer._pending[0][2])
    assert (line["server_id"], line["event_id"]) == (server_id, f"{server_id}-b0a7-1")
    assert (line["limit"], line["detail"]) == (text, text)
    assert writer._pending[0][2].count(b"\n") == 1


def test_a_file_is_hidden_until_it_is_closed(tmp_path: Path, writer: FactsWriter) -> None:
    writer.emit(hit())
    wait_until(lambda: writer.written_facts == 1)
    assert landed(tmp_path) == []
    assert [path.read_bytes().count(b"\n") for path in hidden(tmp_path)] == [1]
    assert writer.close()
    assert hidden(tmp_path) == []
    assert [line["seq"] for line in lines_of(*landed(tmp_path))] == [1]


def test_the_folder_is_the_utc_hour_of_the_first_fact(tmp_path: Path) -> None:
    clock = Clock()
    writer = FactsWriter(tmp_path, "edge-1", BOOT, QUICK, clock=clock.fact_clock())
    writer.emit(hit())
    clock.go_on(1_000_000)
    writer.emit(hit())
    writer.start()
    assert writer.close()
    (path,) = landed(tmp_path)
    assert path.relative_to(tmp_path) == Path("date=2025-11-14/hour=23/edge-1-b0a7-1.jsonl")
    assert [line["seq"] for line in lines_of(path)] == [1, 2]


def test_files_are_closed_by_size_and_hold_whole_lines(tmp_path: Path) -> None:
    limits = FactsLimits(flush_s=0.01, rotate_s=60.0, rotate_bytes=1000)
    writer = FactsWriter(tmp_path, "edge-1", BOOT, limits, clock=Clock().fact_clock())
    writer.start()
    for number in range(1, 4):
        for _ in range(10):
            writer.emit(hit())
        wait_until(lambda number=number: writer.written_facts == 10 * number)  # type: ignore[misc]
    wait_until(lambda: len(landed(tmp_path)) == 3)
    writer.close()
    assert sorted(line["seq"] for line in lines_of(*landed(tmp_path))) == list(range(1, 31))


def test_files_are_closed_by_age_even_if_nothing_more_comes(tmp_path: Path) -> None:
    writer = FactsWriter(tmp_path, "edge-1", BOOT, FactsLimits(flush_s=0.01, rotate_s=0.05), clock=Clock().fact_clock())
    writer.start()
    writer.emit(hit())
    wait_until(lambda: landed(tmp_path))
    writer.emit(hit())
    wait_until(lambda: len(landed(tmp_path)) == 2)
    assert writer.close()


def test_time_goes_on_by_the_monotonic_clock_until_the_wall_clock_is_to_be_followed(tmp_path: Path) -> None:
    clock = Clock()
    writer = FactsWriter(tmp_path, "edge-1", BOOT, QUICK, clock=clock.fact_clock())
    clock.mono_us += 10
    clock.wall_us -= 3_600_000_000
    writer.emit(hit())
    writer.follow_wall_clock()
    clock.go_on(5)
    writer.emit(hit())
    writer.start()
    assert writer.close()
    before, after = (
        lines_of(tmp_path / "date=2025-11-14/hour=23/edge-1-b0a7-1.jsonl"),
        lines_of(tmp_path / "date=2025-11-14/hour=22/edge-1-b0a7-2.jsonl"),
    )
    assert [(line["at_us"], line["mono_us"]) for line in before] == [(BOOT_WALL_US + 10, 5_000_010)]
    assert [(line["at_us"], line["mono_us"]) for line in after] == [(BOOT_WALL_US - 3_600_000_000 + 5, 5_000_015)]


def test_a_new_file_is_begun_when_the_clock_is_set_however_soon(tmp_path: Path, writer: FactsWriter) -> None:
    writer.emit(hit())
    wait_until(lambda: writer.written_facts == 1)
    writer.follow_wall_clock()
    wait_until(lambda: landed(tmp_path))
    writer.emit(hit())
    assert writer.close()
    assert [[line["seq"] for line in lines_of(path)] for path in landed(tmp_path)] == [[1], [2]]


def test_past_the_bound_facts_are_dropped_and_their_numbers_are_missing(tmp_path: Path) -> None:
    limits = FactsLimits(flush_s=0.01, max_pending_bytes=1000)
    writer = FactsWriter(tmp_path, "edge-1", BOOT, limits, clock=Clock().fact_clock())
    ids = [writer.emit(hit()) for _ in range(20)]
    assert ids[-1] == "edge-1-b0a7-20"
    kept = len(writer._pending)
    assert 0 < kept < 20
    assert writer.pending_bytes <= 1000
    assert writer.dropped_facts == 20 - kept
    writer.start()
    wait_until(lambda: writer.pending_bytes == 0)
    writer.emit(hit())
    writer.close()
    assert [line["seq"] for line in lines_of(*landed(tmp_path))] == [*range(1, kept + 1), 21]
    assert writer.written_facts == kept + 1


def test_a_stalled_disk_holds_up_nobody(tmp_path: Path) -> None:
    is_stalled, may_go_on = threading.Event(), threading.Event()

    def stalling(descriptor: int, data: bytes) -> int:
        is_stalled.set()
        may_go_on.wait()
        return os.write(descriptor, data)

    writer = FactsWriter(tmp_path, "edge-1", BOOT, QUICK, clock=Clock().fact_clock(), write=stalling)
    writer.start()
    writer.emit(hit())
    assert is_stalled.wait(5)
    for _ in range(100):
        writer.emit(hit())
    assert not writer.close(timeout_s=0.05)
    may_go_on.set()
    assert writer.close()
    assert [line["seq"] for line in lines_of(*landed(tmp_path))] == list(range(1, 102))


def test_a_full_disk_tears_no_line_and_loses_nothing_that_fits_into_memory(tmp_path: Path) -> None:
    room = 150

    def filling(descriptor: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(descriptor, data[:room])
        room -= written
        return written

    limits = FactsLimits(flush_s=0.01, rotate_s=0.02)
    writer = FactsWriter(tmp_path, "edge-1", BOOT, limits, clock=Clock().fact_clock(), write=filling)
    writer.start()
    for _ in range(3):
        writer.emit(hit())
    wait_until(lambda: writer._is_failing)
    writer.emit(hit())
    assert landed(tmp_path) == []
    assert writer.written_facts == 0
    room = 1_000_000
    wait_until(lambda: writer.written_facts == 4)
    assert not writer._is_failing
    assert writer.close()
    assert [line["seq"] for line in lines_of(*landed(tmp_path))] == [1, 2, 3, 4]


def test_a_folder_that_cannot_be_made_costs_facts_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "facts").write_text("a file where a folder should be")
    writer = FactsWriter(tmp_path / "facts", "edge-1", BOOT, QUICK, clock=Clock().fact_clock())
    writer.start()
    writer.emit(hit())
    wait_until(lambda: writer._is_failing)
    assert writer.close()
    assert writer.written_facts == 0


def test_a_writer_that_was_never_started_can_be_closed(tmp_path: Path) -> None:
    writer = FactsWriter(tmp_path, "edge-1", BOOT)
    writer.emit(hit())
    assert writer.close()
    assert list(tmp_path.iterdir()) == []


def test_folders_and_files_are_for_the_servers_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        writer = FactsWriter(tmp_path / "data" / "facts", "edge-1", BOOT, QUICK, clock=Clock().fact_clock())
        writer.emit(hit())
        writer.start()
        assert writer.close()
    finally:
        os.umask(before)
    (path,) = landed(tmp_path)
    folders = [folder for folder in path.parents if folder.is_relative_to(tmp_path) and folder != tmp_path]
    assert len(folders) == 4
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_modes_that_were_asked_for_hold(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        modes = FileModes(folder=0o750, file=0o640)
        writer = FactsWriter(tmp_path / "facts", "edge-1", BOOT, QUICK, modes, clock=Clock().fact_clock())
        writer.emit(hit())
        writer.start()
        assert writer.close()
    finally:
        os.umask(before)
    (path,) = landed(tmp_path)
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in list(path.parents)[:3]} == {0o750}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_above_its_bound_the_landing_folder_loses_the_oldest_files(tmp_path: Path) -> None:
    limits = FactsLimits(flush_s=0.01, rotate_s=60.0, rotate_bytes=1000, max_total_bytes=5000)
    writer = FactsWriter(tmp_path, "edge-1", BOOT, limits, clock=Clock().fact_clock())
    writer.start()
    for number in range(1, 11):
        for _ in range(10):
            writer.emit(hit())
        wait_until(lambda number=number: writer.written_facts == 10 * number)  # type: ignore[misc]
    assert writer.close()
    sizes = [path.stat().st_size for path in landed(tmp_path)]
    assert 2 <= len(sizes) <= 3
    assert sum(sizes) <= 5000
    assert writer.deleted_files == 10 - len(sizes)
    kept = sorted(line["seq"] for line in lines_of(*landed(tmp_path)))
    assert kept == list(range(101 - len(kept), 101))


CRASH = """
import os, sys, time
from pathlib import Path
from penstock.facts import LimitHit
from penstock.serve.boot import Boot
from penstock.serve.telemetry.facts_writer import FactsLimits, FactsWriter
writer = FactsWriter(Path(sys.argv[1]), "edge-1", Boot("crashed", "crashed"), FactsLimits(flush_s=0.01))
writer.start()
for _ in range(5):
    writer.emit(LimitHit("connections", 1, "full"))
while writer.written_facts < 5:
    time.sleep(0.01)
os.kill(os.getpid(), 9)
"""


def test_what_a_crash_left_behind_lands_at_the_next_start(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", CRASH, tmp_path], check=False, timeout=30)
    (left,) = hidden(tmp_path)
    with left.open("ab") as file:
        file.write(b'{"event_id":"edge-1-crashed-6","ser')
    (left.parent / ".edge-1-empty-1.jsonl").touch()
    writer = FactsWriter(tmp_path, "edge-1", BOOT, QUICK, clock=Clock().fact_clock())
    writer.start()
    assert writer.close()
    assert hidden(tmp_path) == []
    (path,) = landed(tmp_path)
    assert path.name == "edge-1-crashed-1.jsonl"
    *whole, torn = path.read_bytes().splitlines()
    assert [json.loads(line)["seq"] for line in whole] == [1, 2, 3, 4, 5]
    assert torn == b'{"event_id":"edge-1-crashed-6","ser'


def test_each_lost_boot_is_landed_by_the_one_that_was_told_to(tmp_path: Path) -> None:
    folder = tmp_path / "date=2025-11-14" / "hour=23"
    folder.mkdir(parents=True)
    for name in ("edge-1-bbbbbbbb0001-1", "edge-1-bbbbbbbb-7", "edge-1-aaaaaaaa0002-1", "edge-1-aaaaaaaa0003-9"):
        (folder / f".{name}.jsonl").write_bytes(b"{}\n")

    def start(boot: Boot) -> list[str]:
        writer = FactsWriter(tmp_path, "edge-1", boot, QUICK)
        writer.start()
        assert writer.close()
        return [path.stem for path in landed(tmp_path)]

    second = Boot("aaaaaaaa0005", "aaaaaaaa", worker=2, workers=2, recovers=())
    assert start(second) == []
    replacement = dataclasses.replace(second, boot_id="aaaaaaaa0006", recovers=("aaaaaaaa0002",))
    assert start(replacement) == ["edge-1-aaaaaaaa0002-1"]
    first = Boot("aaaaaaaa0001", "aaaaaaaa", worker=1, workers=2, recovers=("*",))
    assert start(first) == ["edge-1-aaaaaaaa0002-1", "edge-1-bbbbbbbb-7", "edge-1-bbbbbbbb0001-1"]
    assert [path.name for path in hidden(tmp_path)] == [".edge-1-aaaaaaaa0003-9.jsonl"]


def test_a_line_names_its_worker(tmp_path: Path) -> None:
    boot = Boot("aaaaaaaa0002", "aaaaaaaa", worker=2, workers=2, recovers=())
    writer = FactsWriter(tmp_path, "edge-1", boot, QUICK)
    writer.start()
    writer.emit(hit())
    writer.close()
    assert [(line["boot_id"], line["worker"]) for line in lines_of(*landed(tmp_path))] == [("aaaaaaaa0002", 2)]


def test_a_file_that_another_server_writes_is_no_leftover(tmp_path: Path, writer: FactsWriter) -> None:
    writer.emit(hit())
    wait_until(lambda: hidden(tmp_path))
    second = FactsWriter(tmp_path, "edge-1", Boot("0ther", "0ther"), QUICK)
    second.start()
    assert second.close()
    assert len(hidden(tmp_path)) == 1
    assert landed(tmp_path) == []


def test_a_crowd_of_facts_wakes_the_writer_before_its_time(tmp_path: Path) -> None:
    writer = FactsWriter(tmp_path, "edge-1", BOOT, FactsLimits(flush_s=60.0))
    writer.start()
    for _ in range(6000):
        writer.emit(hit())
    wait_until(lambda: writer.written_facts >= 5000)
    assert writer.close()
    assert len(lines_of(*landed(tmp_path))) == 6000
    assert writer.dropped_facts == 0
