"""Recorded files, read from a manifest that grows, is torn, and is replaced."""

from datetime import UTC, datetime
from pathlib import Path

from penstock.serve.recording.manifest import Manifest, SegmentRow, SegmentStatus, write_row
from penstock.serve.settings import FileModes
from penstock.web.api.catalogue import Catalogue

STARTED_AT = datetime(2026, 11, 15, 10, 27, 18, 250_000, tzinfo=UTC)


def row(recording_id: str = "r1", segment: int = 1, status: SegmentStatus = SegmentStatus.CLOSED) -> SegmentRow:
    begun = SegmentRow.begun((recording_id, segment), "live", "a", STARTED_AT, 0)
    return SegmentRow(
        **{
            **{name: getattr(begun, name) for name in begun.__slots__},
            "status": status,
            "path": f"{recording_id}_{segment}.flv",
            "duration_ms": 5000,
            "bytes": 1234,
        }
    )


def write(folder: Path, *rows: SegmentRow) -> None:
    with (folder / "manifest.jsonl").open("ab") as file:
        file.writelines(map(write_row, rows))


def test_rows_of_the_recorder_are_read_on(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    catalogue.look()
    assert catalogue.files == {}
    write(tmp_path, row())
    catalogue.look()
    write(tmp_path, row(segment=2, status=SegmentStatus.OPEN))
    catalogue.look()
    assert list(catalogue.files) == ["r1-1", "r1-2"]
    found = catalogue.files["r1-1"]
    assert (found.app, found.stream, found.status, found.duration_ms, found.bytes) == (
        "live",
        "a",
        "closed",
        5000,
        1234,
    )
    assert found.started_at_us == 1_794_738_438_250_000
    assert [each.is_open for each in catalogue.files.values()] == [False, True]


def test_the_newest_row_of_a_file_holds_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    write(tmp_path, row(status=SegmentStatus.OPEN), row(segment=2), row(status=SegmentStatus.FAILED))
    catalogue = Catalogue(tmp_path)
    catalogue.look()
    assert {name: each.status for name, each in catalogue.files.items()} == {"r1-2": "closed", "r1-1": "failed"}
    write(tmp_path, row(status=SegmentStatus.DELETED))
    catalogue.look()
    assert list(catalogue.files) == ["r1-2"]


def test_a_line_without_an_end_is_read_when_it_is_whole(tmp_path: Path) -> None:
    line = write_row(row())
    (tmp_path / "manifest.jsonl").write_bytes(b"torn{\n" + line[:50])
    catalogue = Catalogue(tmp_path)
    catalogue.look()
    assert catalogue.files == {}
    with (tmp_path / "manifest.jsonl").open("ab") as file:
        file.write(line[50:])
    catalogue.look()
    assert list(catalogue.files) == ["r1-1"]


def test_a_manifest_in_the_place_of_another_is_read_from_its_start(tmp_path: Path) -> None:
    write(tmp_path, row(), row(segment=2))
    catalogue = Catalogue(tmp_path)
    catalogue.look()
    (tmp_path / "new").write_bytes(write_row(row(segment=2)) + write_row(row(segment=3)))
    (tmp_path / "new").replace(tmp_path / "manifest.jsonl")
    catalogue.look()
    assert list(catalogue.files) == ["r1-2", "r1-3"]
    (tmp_path / "manifest.jsonl").unlink()
    catalogue.look()
    assert catalogue.files == {}


def test_it_reads_what_the_recorder_writes(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, FileModes())
    manifest.begin(SegmentRow.begun(("r9", 1), "live", "b", STARTED_AT, 0))
    manifest.close()
    catalogue = Catalogue(tmp_path)
    catalogue.look()
    assert list(catalogue.files) == ["r9-1"]


def test_a_file_that_is_being_written_is_as_large_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, row(status=SegmentStatus.OPEN), row(segment=2), row(segment=3, status=SegmentStatus.OPEN))
    (tmp_path / "r1_1.flv").write_bytes(b"x" * 77)
    catalogue = Catalogue(tmp_path)
    catalogue.look()
    assert [catalogue.size_of(each) for each in catalogue.files.values()] == [77, 1234, None]


def test_a_file_is_in_the_folder_whatever_its_row_says(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    write(tmp_path, row())
    catalogue.look()
    outside = catalogue.files["r1-1"].__class__("r", 1, "../../etc/passwd", "a", "b", "closed", STARTED_AT, 0, 0)
    assert catalogue.path_of(outside) == tmp_path / "passwd"
