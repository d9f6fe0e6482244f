"""The manifest: rows survive whatever happens to the file, and the newest one holds, whoever wrote it."""

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.serve.recording import manifest as manifest_module
from penstock.serve.recording.manifest import Gap, Manifest, SegmentRow, SegmentStatus, read_row, write_row
from penstock.serve.settings import FileModes

STARTED_AT = datetime(2025, 10, 1, 12, 0, 0, 250_000, tzinfo=UTC)
ROW = SegmentRow(
    recording_id="0123456789abcdef",
    segment=1,
    path="live_test_20251001_120000.flv",
    app="live",
    stream="test",
    status=SegmentStatus.CLOSED,
    reason=None,
    started_at=STARTED_AT,
    ended_at=None,
    duration_ms=2197,
    bytes=86546,
    video="H.264 High 1.0 160x90",
    audio=None,
    keyframes=4,
    gaps=(Gap(100, 40, 3, 500, "the disk is too slow"),),
    first_timestamp_ms=7,
    last_timestamp_ms=2204,
    boot_id="aaaaaaaa0001",
)
LINE = (
    b'{"recording_id":"0123456789abcdef","segment":1,"path":"live_test_20251001_120000.flv","app":"live",'
    b'"stream":"test","status":"closed","reason":null,"started_at":"2025-10-01T12:00:00.250000Z","ended_at":null,'
    b'"duration_ms":2197,"bytes":86546,"video":"H.264 High 1.0 160x90","audio":null,"keyframes":4,'
    b'"gaps":[{"at_ms":100,"length_ms":40,"dropped_messages":3,"dropped_bytes":500,"reason":"the disk is too slow"}],'
    b'"first_timestamp_ms":7,"last_timestamp_ms":2204,"boot_id":"aaaaaaaa0001"}\n'
)


def lines_of(folder: Path) -> list[bytes]:
    return (folder / "manifest.jsonl").read_bytes().splitlines(keepends=True)


def test_a_row_is_one_line_of_json() -> None:
    assert write_row(ROW) == LINE
    assert read_row(LINE) == ROW


def test_a_row_of_an_older_server_has_no_boot() -> None:
    assert read_row(LINE.replace(b',"boot_id":"aaaaaaaa0001"', b"")) == replace(ROW, boot_id=None)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        LINE[:-20],
        b"[1]\n",
        b"[" * 100_000,
        b"\xff\xfe\n",
        LINE.replace(b'"closed"', b'"lost"'),
        LINE.replace(b'"segment":1', b'"segment":' + b"9" * 5000),
        LINE.replace(b'"segment":1,', b""),
        LINE.replace(b'00.250000Z"', b'00"'),
    ],
    ids=["empty", "blank", "torn", "list", "deep", "no text", "status", "long number", "missing", "no time zone"],
)
def test_anything_else_is_no_row(line: bytes) -> None:
    assert read_row(line) is None


def test_rows_are_there_when_the_manifest_is_opened_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    manifest = Manifest(folder, FileModes())
    manifest.save(ROW)
    manifest.close()
    manifest = Manifest(folder, FileModes())
    assert list(manifest.rows.values()) == [ROW]
    manifest.close()


def test_the_newest_row_of_a_segment_holds_and_the_file_only_grows(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, FileModes())
    manifest.save(replace(ROW, status=SegmentStatus.OPEN))
    manifest.save(replace(ROW, segment=2))
    before = (tmp_path / "manifest.jsonl").read_bytes()
    manifest.save(ROW)
    assert (tmp_path / "manifest.jsonl").read_bytes() == before + LINE
    assert [row.segment for row in manifest.rows.values()] == [2, 1]
    manifest.close()
    manifest = Manifest(tmp_path, FileModes())
    assert list(manifest.rows.values()) == [replace(ROW, segment=2), ROW]
    manifest.close()


def test_a_deleted_segment_is_forgotten(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, FileModes())
    manifest.save(ROW)
    manifest.save(replace(ROW, status=SegmentStatus.DELETED))
    assert manifest.rows == {}
    manifest.close()
    assert len(lines_of(tmp_path)) == 2


def test_the_newest_segment_of_a_stream_is_the_one_touched_last(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, FileModes())
    manifest.save(ROW)
    manifest.save(replace(ROW, segment=2))
    manifest.save(replace(ROW, recording_id="x", stream="other"))
    manifest.save(replace(ROW, duration_ms=9))
    newest = manifest.newest("live", "test")
    assert newest is not None
    assert (newest.segment, newest.duration_ms) == (1, 9)
    assert manifest.newest("live", "nothing") is None
    manifest.close()


@pytest.mark.parametrize("torn_bytes", [1, 10, len(LINE) - 1])
def test_a_torn_last_line_costs_itself_alone(torn_bytes: int, tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").write_bytes(LINE + LINE[:torn_bytes])
    manifest = Manifest(tmp_path, FileModes())
    # All but the end of its line is a whole row.
    assert manifest.damaged_lines == (torn_bytes < len(LINE) - 1)
    manifest.save(replace(ROW, segment=2))
    manifest.close()
    manifest = Manifest(tmp_path, FileModes())
    assert [row.segment for row in manifest.rows.values()] == [1, 2]
    manifest.close()


def test_lines_of_somebody_else_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").write_bytes(b"# mine\n" + LINE + b"{}\n")
    manifest = Manifest(tmp_path, FileModes())
    assert (list(manifest.rows.values()), manifest.damaged_lines) == ([ROW], 2)
    manifest.close()


def test_superseded_rows_are_removed_when_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "_MAX_SUPERSEDED_ROWS", 2)
    other = replace(ROW, segment=2)
    deleted = replace(ROW, segment=3, status=SegmentStatus.DELETED)
    (tmp_path / "manifest.jsonl").write_bytes(LINE * 4 + write_row(other) + write_row(deleted) * 2 + b"torn")
    manifest = Manifest(tmp_path, FileModes())
    manifest.save(replace(ROW, segment=4))
    manifest.close()
    assert lines_of(tmp_path) == [LINE, write_row(other), write_row(replace(ROW, segment=4))]
    assert stat.S_IMODE((tmp_path / "manifest.jsonl").stat().st_mode) == 0o600


def fills_up_after(taken: bytes) -> Callable[[int, bytes], int]:
    """A disk that takes so much of a row and no more."""
    really_write = os.write

    def write(descriptor: int, data: bytes) -> int:
        if data.startswith(taken):
            return really_write(descriptor, taken)
        raise OSError(28, "No space left on device")

    return write


def test_a_row_that_the_disk_refuses_goes_out_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = Manifest(tmp_path, FileModes())
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fills_up_after(LINE[:30]))
        with pytest.raises(OSError, match="No space left on device"):
            manifest.save(ROW)
    assert list(manifest.rows.values()) == [ROW]
    manifest.save(replace(ROW, segment=2))
    manifest.close()
    assert lines_of(tmp_path) == [LINE[:30] + b"\n", LINE, write_row(replace(ROW, segment=2))]


def test_a_path_in_a_row_leads_nowhere_else(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, FileModes())
    assert manifest.path_of(replace(ROW, path="../../etc/passwd")) == tmp_path / "passwd"
    manifest.close()


def test_a_manifest_that_cannot_be_opened_can_be_later(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        Manifest(tmp_path, FileModes())
    (tmp_path / "manifest.jsonl").rmdir()
    Manifest(tmp_path, FileModes()).close()
