"""The manifest as the pipeline reads it, written by the server's own code."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.pipeline.sources.files import locate
from penstock.pipeline.sources.flv.manifest import Segment, finished_segments, read_rows, rows_of, segments_by_name
from tests.pipeline.jobs.recorded import manifest_row, segment_of

FIRST = segment_of(Path("a.flv"), recording_id="a", segment=0, status="repaired")
SECOND = segment_of(Path("b.flv"), recording_id="a", segment=1, video=None, duration_ms=7)


def finished(*lines: bytes) -> list[Segment]:
    return finished_segments(rows_of(lines))


def test_finished_segments_are_read_as_the_server_wrote_them() -> None:
    assert finished(manifest_row(SECOND), manifest_row(FIRST)) == [FIRST, SECOND]


@pytest.mark.parametrize("status", ["open", "failed", "deleted"])
def test_the_newest_row_holds(status: str) -> None:
    other = manifest_row(replace(FIRST, status=status))
    assert finished(manifest_row(FIRST), manifest_row(SECOND), other) == [SECOND]
    assert finished(other, manifest_row(FIRST)) == [FIRST]


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"3", b'{"recording_id":"a"}', b"\xff\xfe", manifest_row(SECOND)[:-9]]
)
def test_a_line_that_is_no_row_is_passed_over(line: bytes) -> None:
    assert finished(manifest_row(FIRST), line) == [FIRST]


@pytest.mark.parametrize(("path", "names"), [("../../etc/passwd", ["passwd"]), ("/x/y.flv", ["y.flv"]), ("..", [])])
def test_a_path_is_a_name_within_the_folder(path: str, names: list[str]) -> None:
    hostile = segment_of(Path("a.flv"), path=path)
    assert [segment.path for segment in finished(manifest_row(hostile))] == names


def test_files_have_their_names_unless_they_were_deleted(tmp_path: Path) -> None:
    rows = [FIRST, replace(FIRST, status="deleted"), replace(SECOND, status="open"), SECOND]
    (tmp_path / "manifest.jsonl").write_bytes(b"".join(map(manifest_row, rows)))
    assert read_rows(locate(str(tmp_path))) == rows
    assert segments_by_name(locate(str(tmp_path))) == {"b.flv": SECOND}


def test_a_folder_without_a_manifest_has_no_segments(tmp_path: Path) -> None:
    assert read_rows(locate(str(tmp_path))) == []
