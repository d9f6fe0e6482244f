"""Which parts of which files are read: files as named, cut at key frames, left out by filters."""

from pathlib import Path

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    Not,
    StringStartsWith,
)

from penstock.errors import ConfigError
from penstock.media.flv import write_tag
from penstock.media.flv_writer import FlvFileWriter
from penstock.pipeline.sources.files import find_files, locate, paths_of
from penstock.pipeline.sources.flv.filters import PushedFilters, pushed
from tests.pipeline.sources.recordings import (
    KEY,
    make_numbered,
    make_with_ffmpeg,
    manifest_row,
    planned,
    rows_of,
    write_manifest,
)

GOP_BYTES = 5 * (11 + 45 + 4 + 11 + 42 + 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings of a server, one of nobody, and things that are no recordings."""
    folder = tmp_path_factory.mktemp("recordings")
    make_numbered(folder / "one.flv", gops=40)
    make_numbered(folder / "two.flv", gops=2)
    (folder / "old").mkdir()
    make_numbered(folder / "old" / "three.flv", gops=1)
    (folder / ".hidden.flv").write_bytes(b"")
    (folder / "notes.txt").write_text("no recording")
    rows = [
        manifest_row("elsewhere/one.flv", "wrong", recording_id="r1"),
        manifest_row("one.flv", "first", recording_id="r1", segment=0),
        manifest_row("two.flv", "second", "open", recording_id="r2", segment=4),
    ]
    write_manifest(folder, rows)
    with (folder / "manifest.jsonl").open("ab") as manifest:
        manifest.write(b'{"recording_id": "torn')
    return folder


def names(paths: list[str]) -> list[str]:
    return [file.location.name for file in find_files(paths)]


def test_a_folder_a_glob_a_file_and_a_list_name_recordings(folder: Path) -> None:
    assert sorted(names([str(folder)])) == ["one.flv", "three.flv", "two.flv"]
    assert names([f"{folder}/*.flv"]) == ["one.flv", "two.flv"]
    assert names([f"{folder}/o*"]) == ["three.flv", "one.flv"]
    assert names([f"{folder}/one.flv"]) == ["one.flv"]
    assert names([f"{folder}/one.flv", str(folder / "old"), f"{folder}/[o]ne.flv"]) == ["three.flv", "one.flv"]
    assert names([folder.as_uri()]) == names([str(folder)])
    assert find_files([f"{folder.as_uri()}/one.flv"])[0].location.uri == f"{folder.as_uri()}/one.flv"


def test_a_name_that_is_there_is_no_glob(tmp_path: Path) -> None:
    odd = tmp_path / "show [1] *what?*" / "recordings"
    (odd / "more").mkdir(parents=True)
    # Which the name would mean if it were a glob.
    (tmp_path / "show 1 what").mkdir()
    for path in (odd / "one.flv", odd / "t[w]o.flv", odd / "more" / "three.flv", tmp_path / "show 1 what" / "not.flv"):
        make_numbered(path, gops=1)
    assert names([str(odd)]) == ["three.flv", "one.flv", "t[w]o.flv"]
    assert names([f"{odd}/t[w]o.flv"]) == ["t[w]o.flv"]
    assert names([f"{odd}/*.flv"]) == ["one.flv", "t[w]o.flv"]
    assert names([f"{odd}/m?re"]) == ["three.flv"]
    assert names([f"{tmp_path}/show [1] *"]) == ["not.flv"]
    (tmp_path / "a").mkdir()
    make_numbered(tmp_path / "axb.flv", gops=1)
    assert names([f"{tmp_path.as_uri()}/a?b.flv"]) == ["axb.flv"]


def test_relative_paths_and_globs_are_of_the_current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    assert names(["*.flv"]) == ["one.flv", "two.flv"]
    assert names(["old"]) == ["three.flv"]
    assert names(["o*/*.flv"]) == ["three.flv"]


def test_what_is_not_there_is_said_before_any_task_runs(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file or folder .*/four\.flv"):
        find_files([f"{folder}/four.flv"])
    with pytest.raises(ConfigError, match="needs a file"):
        paths_of({})


def test_paths_of_spark_are_one_or_a_list() -> None:
    assert paths_of({"path": "a"}) == ["a"]
    assert paths_of({"paths": '["a", "b"]'}) == ["a", "b"]


def test_a_uri_and_a_path_keep_their_spelling() -> None:
    assert locate("/a/b.flv").uri == "/a/b.flv"
    assert locate("file:///a/b.flv").uri == "file:///a/b.flv"
    assert locate("file:///a/b.flv").folder.child("c").uri == "file:///a/c"


def test_names_come_from_the_manifest_and_never_from_the_file_name(folder: Path) -> None:
    told = {Path(part.path).name: (part.app, part.stream, part.recording_id, part.segment) for part in planned(folder)}

    assert told == {
        "one.flv": ("live", "first", "r1", 0),
        "two.flv": ("live", "second", "r2", 4),
        "three.flv": (None, None, None, None),
    }


@pytest.mark.parametrize("split_bytes", [1, 2 * GOP_BYTES, 7 * GOP_BYTES + 1, 10**9])
def test_split_equals_whole(folder: Path, split_bytes: int) -> None:
    whole = rows_of(planned(folder / "one.flv"))
    parts = planned(folder / "one.flv", split_bytes)

    assert len(whole) == 1 + 40 * 10
    assert [row["tag_index"] for row in whole] == list(range(len(whole)))
    assert rows_of(parts) == whole
    assert len(parts) == {1: 41, 2 * GOP_BYTES: 21, 7 * GOP_BYTES + 1: 7, 10**9: 1}[split_bytes]
    assert all((folder / "one.flv").read_bytes()[part.start + 11 :].startswith(KEY) for part in parts[1:])


def test_files_of_ffmpeg_are_split_by_their_index_too(tmp_path: Path) -> None:
    make_with_ffmpeg(tmp_path / "a.flv", seconds=2)

    parts = planned(tmp_path / "a.flv", 1)

    assert len(parts) == 1 + 4
    assert rows_of(parts) == rows_of(planned(tmp_path / "a.flv"))


def test_an_index_is_not_followed_to_where_no_tag_begins(folder: Path, tmp_path: Path) -> None:
    data = (folder / "one.flv").read_bytes()
    first_frame = planned(folder / "one.flv", 1)[1].start
    # One more sound before the first frame moves all that the index tells of.
    (tmp_path / "one.flv").write_bytes(data[:first_frame] + write_tag(8, 0, b"\xaf\x01") + data[first_frame:])

    assert len(planned(tmp_path / "one.flv", 1)) == 1


def test_an_index_is_not_followed_into_a_payload(tmp_path: Path) -> None:
    """The byte that the index names is that of a video tag, but the tag before does not end there."""
    writer = FlvFileWriter()
    beginning = writer.begin()
    payload = KEY + b"\x00\x00\x00\x14" + b"\x09" + bytes(50)
    tags = [writer.add_tag(9, time_ms, payload, is_key=True) for time_ms in (0, 100, 200)]
    writer.index.keyframe_positions[1] += 11 + len(KEY) + 4
    path = tmp_path / "a.flv"
    path.write_bytes(writer.finish() + b"".join(head + payload + trail for head, trail in tags))

    assert len(beginning) == len(writer.finish())
    assert len(planned(path, 1)) == 1


def test_numbers_go_on_behind_damage(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / "one.flv").read_bytes())
    data[planned(folder / "one.flv", 1)[5].start] = 0x77
    (tmp_path / "a.flv").write_bytes(data)

    for split_bytes in (0, 1):
        rows = rows_of(planned(tmp_path / "a.flv", split_bytes))
        assert [row["tag_index"] for row in rows if row["error"] is None] == list(range(1 + 40 * 10 - 1))


def test_a_file_of_other_bytes_is_one_part(tmp_path: Path) -> None:
    (tmp_path / "a.flv").write_bytes(b"\x00" * 1000)
    (tmp_path / "empty.flv").write_bytes(b"")

    assert [(part.start, part.end) for part in planned(tmp_path, 1)] == [(0, 1000), (0, 0)]


@pytest.mark.parametrize(("status", "errors"), [("open", []), ("closed", ["tag of 42 bytes torn"])])
def test_a_torn_end_is_damage_unless_the_file_is_being_written(
    folder: Path, tmp_path: Path, status: str, errors: list[str]
) -> None:
    (tmp_path / "a.flv").write_bytes((folder / "two.flv").read_bytes()[:-20])
    write_manifest(tmp_path, [manifest_row("a.flv", "a", status)])

    rows = rows_of(planned(tmp_path))

    assert [str(row["error"]).split(" at ")[0] for row in rows if row["error"]] == errors
    assert len([row for row in rows if not row["error"]]) == 2 * 10


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ([EqualTo(("stream",), "first")], ["one.flv"]),
        ([In(("stream",), ("first", "second"))], ["one.flv", "two.flv"]),
        ([IsNotNull(("app",)), EqualTo(("segment",), 4)], ["two.flv"]),
        ([IsNull(("app",))], ["three.flv"]),
        ([StringStartsWith(("recording_id",), "r")], ["one.flv", "two.flv"]),
        # What is not understood leaves everything in.
        ([Not(EqualTo(("stream",), "first"))], ["three.flv", "one.flv", "two.flv"]),
    ],
)
def test_files_are_left_out_by_what_the_manifest_says(folder: Path, filters: list[Filter], kept: list[str]) -> None:
    assert [Path(part.path).name for part in planned(folder, filters=pushed(filters))] == kept


@pytest.mark.parametrize(
    ("filters", "understood"),
    [
        ([EqualTo(("kind",), "video"), EqualTo(("is_key",), True)], {"kinds": {"video"}, "is_key": True}),
        ([In(("kind",), ("video", "data"))], {"kinds": {"video", "data"}}),
        ([GreaterThan(("dts_ms",), 5), LessThan(("dts_ms",), 9)], {"from_ms": 5, "to_ms": 9}),
        ([EqualTo(("dts_ms",), 5)], {"from_ms": 5, "to_ms": 5}),
    ],
)
def test_filters_on_tags_are_understood(filters: list[Filter], understood: dict[str, object]) -> None:
    told = pushed(filters)

    assert not told.may_be_damage
    for name, value in understood.items():
        assert getattr(told, name) == value


def test_without_a_filter_on_tags_damage_is_wanted() -> None:
    assert pushed([EqualTo(("stream",), "first"), Not(EqualTo(("kind",), "video"))]) == PushedFilters(
        on_files=(EqualTo(("stream",), "first"),)
    )
