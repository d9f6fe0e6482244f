"""Landed files reach another landing folder whole, under their names, and once is enough."""

from pathlib import Path

import pytest

from penstock.errors import PipelineError
from penstock.pipeline.ship import Shipped, ship_landed
from penstock.pipeline.storage import Storage

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
