"""One manifest, several workers: every row is there once and whole, whoever writes and whoever compacts meanwhile."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.serve.recording import manifest as manifest_module
from penstock.serve.recording.manifest import Manifest, SegmentRow, SegmentStatus, read_row, write_row
from penstock.serve.settings import FileModes
from tests.serve.recording.test_manifest import LINE, ROW

WRITERS = 3
SEGMENTS = 20
WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from penstock.serve.recording.manifest import Manifest, SegmentStatus
from penstock.serve.settings import FileModes
from tests.serve.recording.test_manifest import ROW

folder, name, segments = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
manifest = Manifest(folder, FileModes())
for _ in range(segments):
    own = manifest.begin(replace(ROW, recording_id="shared", status=SegmentStatus.OPEN, boot_id=name))
    manifest.save(replace(own, status=SegmentStatus.CLOSED, stream="x" * 5000), is_synced=False)
"""
COMPACTOR = """
import sys
from pathlib import Path
from penstock.serve.recording import manifest
from penstock.serve.settings import FileModes

manifest._MAX_SUPERSEDED_ROWS = -1_000_000
while not Path(sys.argv[1], "done").exists():
    manifest.Manifest(Path(sys.argv[1]), FileModes()).close()
"""


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Manifest, Manifest]]:
    manifests = Manifest(tmp_path, FileModes()), Manifest(tmp_path, FileModes())
    yield manifests
    for manifest in manifests:
        manifest.close()


def compact(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(manifest_module, "_MAX_SUPERSEDED_ROWS", -100)
        Manifest(folder, FileModes()).close()


def test_rows_of_another_worker_are_seen_with_the_next_look(two: tuple[Manifest, Manifest]) -> None:
    one, other = two
    one.save(ROW)
    assert other.rows == {}
    other.catch_up()
    assert list(other.rows.values()) == [ROW]
    one.save(replace(ROW, status=SegmentStatus.DELETED))
    other.catch_up()
    assert other.rows == {}


def test_the_newest_segment_may_be_of_another_worker(two: tuple[Manifest, Manifest]) -> None:
    one, other = two
    one.save(ROW)
    other.save(replace(ROW, recording_id="later"))
    newest = one.newest("live", "test")
    assert newest is not None
    assert newest.recording_id == "later"


def test_no_number_is_given_twice(two: tuple[Manifest, Manifest]) -> None:
    one, other = two
    rows = [manifest.begin(ROW) for manifest in (one, other, other, one)]
    assert [row.segment for row in rows] == [1, 2, 3, 4]
    assert other.begin(replace(ROW, segment=9)).segment == 9


def test_half_a_row_is_read_when_the_other_half_is_there(two: tuple[Manifest, Manifest], tmp_path: Path) -> None:
    _, other = two
    with (tmp_path / "manifest.jsonl").open("ab", buffering=0) as file:
        file.write(LINE[:100])
        other.catch_up()
        assert (other.rows, other.damaged_lines) == ({}, 0)
        file.write(LINE[100:])
    other.catch_up()
    assert (list(other.rows.values()), other.damaged_lines) == ([ROW], 0)


def test_what_a_killed_worker_left_of_a_row_costs_no_other(two: tuple[Manifest, Manifest], tmp_path: Path) -> None:
    one, other = two
    path = tmp_path / "manifest.jsonl"
    with path.open("ab", buffering=0) as file:
        file.write(LINE[:100])
    one.save(ROW)
    other.save(replace(ROW, segment=2))
    assert path.read_bytes() == LINE[:100] + b"\n" + LINE + write_row(replace(ROW, segment=2))
    assert [row.segment for row in other.rows.values()] == [1, 2]


def test_who_has_the_old_file_open_goes_on_in_the_new_one(
    two: tuple[Manifest, Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    for duration_ms in range(5):
        one.save(replace(ROW, duration_ms=duration_ms))
    one.save(replace(ROW, segment=2, status=SegmentStatus.DELETED))
    compact(tmp_path, monkeypatch)
    other.catch_up()
    assert [row.duration_ms for row in other.rows.values()] == [4]
    one.save(replace(ROW, segment=3))
    other.catch_up()
    kept = [replace(ROW, duration_ms=4), replace(ROW, segment=3)]
    assert (tmp_path / "manifest.jsonl").read_bytes() == b"".join(map(write_row, kept))
    assert list(one.rows.values()) == list(other.rows.values()) == kept


def test_a_row_that_waits_for_a_full_disk_is_not_forgotten_over_a_new_file(
    two: tuple[Manifest, Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two

    def refuse(_descriptor: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", refuse)
        with pytest.raises(OSError, match="No space left"):
            one.save(ROW)
    other.save(replace(ROW, recording_id="other"))
    compact(tmp_path, monkeypatch)
    one.catch_up()
    assert [row.recording_id for row in one.rows.values()] == ["other", ROW.recording_id]
    one.save(replace(ROW, segment=2))
    other.catch_up()
    assert [row.key for row in other.rows.values()] == [("other", 1), (ROW.recording_id, 1), (ROW.recording_id, 2)]


def rows_in(folder: Path) -> list[SegmentRow]:
    lines = (folder / "manifest.jsonl").read_bytes().splitlines()
    rows = [row for line in lines if (row := read_row(line)) is not None]
    assert len(rows) == len(lines)
    return rows


def test_processes_that_append_while_another_compacts_lose_tear_and_double_nothing(tmp_path: Path) -> None:
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    compactor = subprocess.Popen([sys.executable, "-c", COMPACTOR, str(tmp_path)], env=here)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), f"w{number}", str(SEGMENTS)], env=here)
        for number in range(WRITERS)
    ]
    assert [writer.wait(120) for writer in writers] == [0] * WRITERS
    (tmp_path / "done").touch()
    assert compactor.wait(60) == 0
    newest = {row.key: row for row in rows_in(tmp_path)}
    assert sorted(newest) == [("shared", number) for number in range(1, WRITERS * SEGMENTS + 1)]
    assert {row.status for row in newest.values()} == {SegmentStatus.CLOSED}
    assert Counter(row.boot_id for row in newest.values()) == {f"w{number}": SEGMENTS for number in range(WRITERS)}
    states = Counter((row.key, row.status) for row in rows_in(tmp_path))
    assert set(states.values()) == {1}
