"""The manifest as the archive job reads it, written by the server's own code."""

from pathlib import Path

import pytest

from penstock.pipeline.jobs.segments import read_segments, segments_of
from penstock.pipeline.storage import Storage
from tests.pipeline.jobs.recorded import manifest_row, segment_of

FIRST = segment_of(Path("a.flv"), recording_id="a", segment=0)
SECOND = segment_of(Path("b.flv"), recording_id="a", segment=1, video=None, duration_ms=7)


def test_finished_segments_are_read_as_the_server_wrote_them() -> None:
    assert segments_of([manifest_row(SECOND), manifest_row(FIRST, "repaired")]) == [FIRST, SECOND]


@pytest.mark.parametrize("status", ["open", "failed", "deleted"])
def test_the_newest_row_holds(status: str) -> None:
    assert segments_of([manifest_row(FIRST), manifest_row(SECOND), manifest_row(FIRST, status)]) == [SECOND]
    assert segments_of([manifest_row(FIRST, status), manifest_row(FIRST)]) == [FIRST]


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"3", b'{"recording_id":"a"}', b"\xff\xfe", manifest_row(SECOND)[:-9]]
)
def test_a_line_that_is_no_row_is_passed_over(line: bytes) -> None:
    assert segments_of([manifest_row(FIRST), line]) == [FIRST]


@pytest.mark.parametrize(("path", "names"), [("../../etc/passwd", ["passwd"]), ("/x/y.flv", ["y.flv"]), ("..", [])])
def test_a_path_is_a_name_within_the_folder(path: str, names: list[str]) -> None:
    hostile = segment_of(Path("a.flv"), path=path)
    assert [segment.path for segment in segments_of([manifest_row(hostile)])] == names


def test_a_folder_without_a_manifest_has_no_segments(tmp_path: Path) -> None:
    assert read_segments(Storage(tmp_path)) == []
