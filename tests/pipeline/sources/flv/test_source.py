"""The format flv through Spark: rows against what PyAV reads from the same files."""

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import av
import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.sources import register_sources
from tests.pipeline.sources.recordings import (
    GOLDEN,
    make_numbered,
    make_with_ffmpeg,
    manifest_row,
    planned,
    rows_of,
    write_manifest,
)

Packet = tuple[str, int, int, bool, str]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def flv_spark(spark: SparkSession) -> SparkSession:
    register_sources(spark)
    return spark


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """H.264 and AAC, sound alone, HEVC and AV1 in enhanced tags, a damaged file and one of random bytes."""
    folder = tmp_path_factory.mktemp("recordings")
    make_with_ffmpeg(folder / "h264.flv", seconds=2)
    make_with_ffmpeg(folder / "sound.flv", seconds=2, video=None)
    for name in ("hevc_aac", "av1"):
        (folder / f"{name}.flv").write_bytes((GOLDEN / f"{name}.flv").read_bytes())
    damaged = bytearray((folder / "h264.flv").read_bytes())
    middle = planned(folder / "h264.flv", 1)[2].start
    damaged[middle] = 0x77
    (folder / "damaged.flv").write_bytes(damaged[:-6])
    (folder / "random.flv").write_bytes(random.Random(5).randbytes(5000))
    write_manifest(folder, [manifest_row("h264.flv", "main"), manifest_row("damaged.flv", "main", segment=1)])
    return folder


@pytest.fixture(scope="module")
def rows(flv_spark: SparkSession, recordings: Path) -> list[dict[str, object]]:
    read = flv_spark.read.format("flv").option("payload", "true").option("splitBytes", "4000").load(str(recordings))
    return [row.asDict() for row in read.collect()]


def packets_of_pyav(path: Path) -> list[Packet]:
    with av.open(str(path)) as container:
        return [
            (
                packet.stream.type,
                packet.dts,
                packet.pts or 0,
                packet.is_keyframe,
                hashlib.md5(bytes(packet)).hexdigest(),
            )
            for packet in container.demux()
            if packet.dts is not None
        ]


def packets_of_rows(rows: list[dict[str, object]], name: str) -> list[Packet]:
    """The frames of a file; what a tag has before its coded bytes is the same for all frames of these files."""
    heads = {"H.264 AVC": 5, "AAC": 2, "H.265 HEVC": 8, "AV1": 5}
    packets = []
    for row in rows_of_file(rows, name):
        if row["role"] == "frame":
            payload = row["payload"]
            assert isinstance(payload, bytes | bytearray)
            # A frame of HEVC without composition time has a header that is shorter by it.
            head = 5 if payload[0] & 0x8F == 0x83 else heads[str(row["codec"])]
            is_key = row["is_key"] or row["kind"] == "audio"
            digest = hashlib.md5(payload[head:]).hexdigest()
            packets.append((row["kind"], row["dts_ms"], row["pts_ms"], is_key, digest))
    return packets  # type: ignore[return-value]


def rows_of_file(rows: list[dict[str, object]], name: str) -> list[dict[str, object]]:
    return sorted((row for row in rows if Path(str(row["path"])).name == name), key=lambda row: int(str(row["offset"])))


@pytest.mark.parametrize("name", ["h264.flv", "sound.flv", "hevc_aac.flv", "av1.flv"])
def test_frames_are_those_that_pyav_reads(rows: list[dict[str, object]], recordings: Path, name: str) -> None:
    expected = packets_of_pyav(recordings / name)

    assert len(expected) > 10
    assert sorted(packets_of_rows(rows, name)) == sorted(expected)


def test_rows_are_told_by_file_and_number(rows: list[dict[str, object]]) -> None:
    told = rows_of_file(rows, "h264.flv")

    assert {(row["app"], row["stream"], row["recording_id"], row["segment"]) for row in told} == {
        ("live", "main", "rec-main", 0)
    }
    assert [row["tag_index"] for row in told] == list(range(len(told)))
    assert Counter((row["kind"], row["role"]) for row in told if row["role"] != "frame") == {
        ("data", "config"): 1,
        ("video", "config"): 1,
        ("audio", "config"): 1,
        ("video", "other"): 1,
    }
    assert {row["error"] for row in told} == {None}
    assert all(row["size"] == len(row["payload"]) for row in told)  # type: ignore[arg-type]


def test_damage_is_a_row_and_the_rest_is_read(rows: list[dict[str, object]]) -> None:
    whole = {row["offset"] for row in rows_of_file(rows, "h264.flv")}
    told = rows_of_file(rows, "damaged.flv")
    damage = [row for row in told if row["error"] is not None]

    assert [str(row["error"]).split(" at ")[0] for row in damage] == ["unknown tag kind 0x77", "tag of 5 bytes torn"]
    assert {row["kind"] for row in damage} == {None}
    assert {row["segment"] for row in told} == {1}
    lost = whole - {row["offset"] for row in told if row["error"] is None}
    assert len(lost) == 2


def test_random_bytes_are_one_row(rows: list[dict[str, object]]) -> None:
    (row,) = rows_of_file(rows, "random.flv")

    assert (row["offset"], row["size"], row["kind"]) == (0, 5000, None)
    assert "is not b'FLV'" in str(row["error"])


FILTERS = {
    "stream = 'a' and kind = 'video' and is_key": 30,
    "dts_ms between 50000 and 60000": 22,
    "stream in ('b', 'c') and not is_key": 13 + 15,
    "error is not null": 1,
    "path like '%b.flv' and dts_ms >= 300 and dts_ms < 400": 2,
    "true": 1 + 300 + 1 + 30 + 1,
}
"""Conditions, and how many rows of the folder `numbered` they hold for."""


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings of a server and a file that is none."""
    folder = tmp_path_factory.mktemp("numbered")
    make_numbered(folder / "a.flv", gops=30, frame_ms=1000)
    make_numbered(folder / "b.flv", gops=3)
    (folder / "c.flv").write_bytes(b"no recording at all")
    write_manifest(folder, [manifest_row("a.flv", "a"), manifest_row("b.flv", "b")])
    return folder


@pytest.fixture
def pushing_spark(flv_spark: SparkSession) -> Iterator[SparkSession]:
    flv_spark.conf.set(PUSHDOWN, "true")
    yield flv_spark
    flv_spark.conf.unset(PUSHDOWN)


def test_one_dataframe_answers_any_number_of_questions(flv_spark: SparkSession, numbered: Path) -> None:
    tags = flv_spark.read.format("flv").load(str(numbered))
    told = {condition: tags.where(condition).count() for condition in FILTERS}
    both = tags.where("stream = 'a'").union(tags.where("stream = 'b'"))

    assert told == FILTERS
    assert (both.count(), tags.count()) == (301 + 31, 333)


def test_spark_may_push_filters_and_a_plain_read_stays_as_it_is(pushing_spark: SparkSession, numbered: Path) -> None:
    tags = pushing_spark.read.format("flv").load(str(numbered))

    assert tags.where("stream = 'a'").rdd.getNumPartitions() == 3
    assert {condition: tags.where(condition).count() for condition in FILTERS} == FILTERS


def test_pushed_filters_leave_out_files_and_give_the_same_rows(pushing_spark: SparkSession, numbered: Path) -> None:
    reader = pushing_spark.read.format("flv").option("pushFilters", "true")
    told = {condition: reader.load(str(numbered)).where(condition).count() for condition in FILTERS}

    assert told == FILTERS
    assert reader.load(str(numbered)).where("stream = 'b'").rdd.getNumPartitions() == 1


def test_filters_are_not_pushed_against_the_setting_of_spark(flv_spark: SparkSession, numbered: Path) -> None:
    with pytest.raises(Exception, match=f"'{PUSHDOWN}' is false"):
        flv_spark.read.format("flv").option("pushFilters", "true").load(str(numbered)).count()


def test_segments_are_chosen_by_options(flv_spark: SparkSession, numbered: Path) -> None:
    chosen = flv_spark.read.format("flv").option("app", "live").option("stream", "b").load(str(numbered))

    assert (chosen.count(), chosen.rdd.getNumPartitions()) == (31, 1)


def test_a_list_of_files_and_a_file_that_goes_away(flv_spark: SparkSession, tmp_path: Path) -> None:
    make_numbered(tmp_path / "a.flv", gops=1)
    make_numbered(tmp_path / "b.flv", gops=1)
    (gone,) = planned(tmp_path / "b.flv")

    both = flv_spark.read.format("flv").load([str(tmp_path / "a.flv"), str(tmp_path / "b.flv")])
    (tmp_path / "b.flv").unlink()
    (row,) = rows_of([gone])

    assert "cannot be read" in str(row["error"])
    with pytest.raises(Exception, match="there is no file or folder"):
        both.count()
