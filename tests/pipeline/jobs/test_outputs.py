"""Names made safe, and files put in place whole."""

from pathlib import Path, PurePosixPath

import pytest

from penstock.pipeline.jobs.outputs import folder_of, read_mark, safe_name, workspace, write_mark
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.jobs.recorded import segment_of

PATHS = ["", ".", "..", "../../etc", "/etc/passwd", "a/b", "a\\b", ".hidden", "_work"]
HOSTILE = [*PATHS, "a b", "x" * 300, "ü", "\udcff", "a\0b", "--help"]


def test_a_harmless_name_stays_as_it_is() -> None:
    assert folder_of(segment_of(Path("x"), app="live", stream="cam-1_b.2", recording_id="r9")) == "live/cam-1_b.2/r9-0"


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_hostile_name_stays_within_its_folder(name: str) -> None:
    folder = folder_of(segment_of(Path("x"), app=name, stream=name, recording_id=name))
    parts = PurePosixPath(folder).parts
    assert len(parts) == 3
    assert all(part.isascii() and 0 < len(part) < 120 and part[0] not in "._-/" for part in parts)


def test_different_names_stay_different() -> None:
    assert len({safe_name(name) for name in (*HOSTILE, "a-b", "etc", "work", "hidden")}) == len(HOSTILE) + 4


@pytest.mark.parametrize("is_local", [True, False])
def test_new_files_stand_in_place_of_all_old_ones(tmp_path: Path, is_local: bool) -> None:
    archive = Storage(tmp_path)
    archive.is_local = is_local
    for names in (["a", "hls/1", "hls/2"], ["a", "hls/1"]):
        with workspace(archive) as work:
            (work.folder / "hls").mkdir()
            for name in names:
                (work.folder / name).write_text(name * len(names))
            sizes = work.put_in_place("x/y")
        assert not work.folder.exists()
        assert sizes == {name: len(name) * len(names) for name in names}
        assert [file.path for file in archive.find("x/y")] == [f"x/y/{name}" for name in names]
    assert archive.read("x/y/a") == b"aa"
    assert archive.find("_work") == []


def test_a_folder_that_is_being_replaced_has_no_mark(tmp_path: Path) -> None:
    archive = Storage(tmp_path)
    archive.put("x/b/in the way", b"")
    write_mark(archive, "x", {"outputs": {}})
    with workspace(archive) as work:
        for name in "ab":
            (work.folder / name).write_text(name)
        with pytest.raises(OSError, match="x/b"):
            work.put_in_place("x")
    assert archive.read("x/a") == b"a"
    assert read_mark(archive, "x") is None


def test_a_mark_holds_as_long_as_all_that_it_names_is_there(tmp_path: Path) -> None:
    archive = Storage(tmp_path)
    assert read_mark(archive, "x") is None
    archive.put("x/a", b"123")
    write_mark(archive, "x", {"outputs": {"a": 3}})
    assert read_mark(archive, "x") == {"outputs": {"a": 3}}
    archive.put("x/a", b"1234")
    assert read_mark(archive, "x") is None


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"outputs": 3}'])
def test_a_damaged_mark_is_none(tmp_path: Path, text: bytes) -> None:
    archive = Storage(tmp_path)
    archive.put("x/archive.json", text)
    assert read_mark(archive, "x") is None
