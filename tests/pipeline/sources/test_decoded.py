"""Pictures, loudness and media defects of recordings of real encoders."""

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StringType, StructField, StructType

from penstock.errors import ConfigError
from penstock.pipeline.sources import register_sources
from penstock.pipeline.sources.decoded.frames import FramesSource
from penstock.pipeline.sources.decoded.loudness import LoudnessSource
from penstock.pipeline.sources.decoded.media_defects import MediaDefectsSource, intervals
from tests.pipeline.sources.recordings import GOLDEN, make_with_ffmpeg, manifest_row, planned, write_manifest
from tests.support.ffmpeg import QUIET_ARGUMENTS, TINY_AAC_ARGUMENTS, TINY_H264_ARGUMENTS, find_ffmpeg
from tests.support.processes import run_to_end

Row = dict[str, object]


def rows_of(source: type[DataSource], path: Path, **options: str) -> list[Row]:
    """What tasks would give, without Spark."""
    made = source({"path": str(path)} | options)
    names = [column.split()[0] for column in str(made.schema()).split(", ")]
    reader = made.reader(StructType([StructField(name, StringType()) for name in names]))
    return [dict(zip(names, row, strict=True)) for row in _read(reader)]


def _read(reader: DataSourceReader) -> Iterator[tuple[object, ...]]:
    for partition in reader.partitions():
        yield from reader.read(partition)


def rgb_of_pyav(path: Path) -> dict[int, bytes]:
    """Every picture that PyAV's own reader of files gives, by its time."""
    with av.open(str(path)) as container:
        return {
            round(frame.time * 1000): frame.to_ndarray(format="rgb24").tobytes()
            for frame in container.decode(video=0)
            if frame.time is not None
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of FFmpeg's files begin at 46 ms, as its encoder of sound needs that long."""
    folder = tmp_path_factory.mktemp("recordings")
    make_with_ffmpeg(folder / "h264.flv", seconds=3)
    for name in ("hevc_aac", "av1", "h264_aac"):
        (folder / f"{name}.flv").write_bytes((GOLDEN / f"{name}.flv").read_bytes())
    write_manifest(folder, [manifest_row("h264.flv", "main")])
    return folder


@pytest.mark.parametrize(("name", "every"), [("h264_aac", "300ms"), ("hevc_aac", "keyframes"), ("av1", "250ms")])
def test_pictures_are_those_that_pyav_decodes(folder: Path, name: str, every: str) -> None:
    expected = rgb_of_pyav(folder / f"{name}.flv")

    rows = rows_of(FramesSource, folder / f"{name}.flv", every=every, image="rgb")

    assert len(rows) >= 4
    assert {row["error"] for row in rows} == {None}
    assert {(row["width"], row["height"]) for row in rows} == {(160, 90)}
    for row in rows:
        assert row["image"] == expected[int(str(row["pts_ms"]))]


def test_the_picture_at_a_time_is_the_one_on_the_screen_then(folder: Path) -> None:
    rows = rows_of(FramesSource, folder / "h264_aac.flv", every="70ms", image="rgb", width="16")
    shown = sorted(rgb_of_pyav(folder / "h264_aac.flv"))

    assert [row["at_ms"] for row in rows] == list(range(210, shown[-1] + 1, 70))
    assert all(row["pts_ms"] == max(time for time in shown if time <= int(str(row["at_ms"]))) for row in rows)


def test_pictures_do_not_depend_on_how_a_file_is_cut(folder: Path) -> None:
    whole = rows_of(FramesSource, folder / "h264.flv", every="200ms", splitBytes="0")

    assert len(planned(folder / "h264.flv", 1)) == 7
    assert rows_of(FramesSource, folder / "h264.flv", every="200ms", splitBytes="1") == whole
    assert [row["at_ms"] for row in whole] == list(range(200, 3000, 200))


def test_thumbnails_are_scaled_jpegs(folder: Path, tmp_path: Path) -> None:
    row = rows_of(FramesSource, folder / "h264.flv", width="64")[1]
    image = row["image"]
    assert isinstance(image, bytes)
    (tmp_path / "a.jpg").write_bytes(image)

    with av.open(str(tmp_path / "a.jpg")) as container:
        picture = next(container.decode(video=0))
    full = rows_of(FramesSource, folder / "h264.flv", width="64", image="rgb")[1]["image"]
    assert isinstance(full, bytes)

    assert (picture.width, picture.height, row["width"], row["height"]) == (64, 36, 64, 36)
    pixels = np.frombuffer(full, np.uint8).reshape(36, 64, 3).astype(int)
    assert np.abs(picture.to_ndarray(format="rgb24") - pixels).mean() < 12


def test_what_cannot_be_decoded_is_a_row_and_the_next_key_frame_is_tried(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / "h264.flv").read_bytes())
    (place,) = [part.start for part in planned(folder / "h264.flv", 1)][3:4]
    # In the middle of the picture: a decoder that is not told otherwise would paint over it.
    middle = place + 11 + int.from_bytes(data[place + 1 : place + 4]) // 2
    data[middle : middle + 100] = b"\xa5" * 100
    (tmp_path / "a.flv").write_bytes(data)

    rows = rows_of(FramesSource, tmp_path / "a.flv")

    assert [row["at_ms"] for row in rows] == [46, 546, 1046, 1546, 2046, 2546]
    assert [row["image"] is None for row in rows] == [False, False, True, False, False, False]
    assert "cannot be decoded from 1046 ms on" in str(rows[2]["error"])


def test_files_without_pictures_or_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.flv").write_bytes(b"nothing of the kind")

    (frames,) = rows_of(FramesSource, tmp_path)
    assert "is not b'FLV'" in str(frames["error"])
    assert rows_of(LoudnessSource, tmp_path) == []


def test_loudness_is_told_second_by_second(tmp_path: Path) -> None:
    # A sine of half of full scale for a second, a quiet one for another, and nothing.
    level = "if(lt(t\\,1)\\,0.5*sin(880*PI*t)\\,if(lt(t\\,2)\\,0.05*sin(880*PI*t)\\,0))"
    sound = ["-f", "lavfi", "-i", f"aevalsrc={level}:s=44100:d=4"]
    path = tmp_path / "a.flv"
    encoding = ["-c:a", "aac", "-b:a", "128k", str(path)]
    run_to_end([find_ffmpeg(), *QUIET_ARGUMENTS, *sound, *encoding], tmp_path / "log", 30.0)

    rows = rows_of(LoudnessSource, path)[:4]

    assert [row["at_ms"] for row in rows] == [0, 1000, 2000, 3000]
    # An encoder is late by a few milliseconds, so the end of what is loud is in the next second.
    assert [float(str(row["rms_dbfs"])) for row in rows[:2]] == pytest.approx([-9, -29], abs=1.5)
    # It also overshoots where a sound begins or ends at once.
    assert -6.5 < float(str(rows[0]["peak_dbfs"])) < 0
    assert [row["is_silent"] for row in rows] == [False, False, False, True]


def test_black_frozen_and_silent_intervals_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.flv"
    picture = (
        "testsrc=size=160x90:rate=10:duration=3[a];color=black:size=160x90:rate=10:duration=4[b];"
        "testsrc=size=160x90:rate=10:duration=1,loop=30:1:0,setpts=N/10/TB,trim=duration=3[c];"
        "[a][b][c]concat=n=3:v=1:a=0[v]"
    )
    sound = "aevalsrc='if(between(t,2,6),0,0.3*sin(880*PI*t))':s=22050:d=10[s]"
    arguments = ["-filter_complex", f"{picture};{sound}", "-map", "[v]", "-map", "[s]"]
    encoding = [*TINY_H264_ARGUMENTS, *TINY_AAC_ARGUMENTS, "-t", "10", str(path)]
    run_to_end([find_ffmpeg(), *QUIET_ARGUMENTS, *arguments, *encoding], tmp_path / "log", 30.0)

    rows = rows_of(MediaDefectsSource, path, every="500ms")

    found = {str(row["kind"]): (int(str(row["from_ms"])), int(str(row["to_ms"]))) for row in rows}
    assert found["black"] == (3500, 7500)
    assert found["silent"] == pytest.approx((2000, 6000), abs=150)
    frozen = [(row["from_ms"], row["to_ms"]) for row in rows if row["kind"] == "frozen"]
    assert frozen == [(3500, 7000), (7500, 9500)]


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ([], []),
        ([(0, False), (1, False)], []),
        ([(0, True), (5, True), (7, False), (9, True), (12, True)], [(0, 7), (9, 12)]),
        ([(3, True)], [(3, 3)]),
    ],
)
def test_a_defect_ends_where_it_is_no_longer_present(
    moments: list[tuple[int, bool]], expected: list[tuple[int, int]]
) -> None:
    assert list(intervals(moments)) == expected


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (FramesSource, {"every": "often"}, "option every is 'often'"),
        (FramesSource, {"width": "-3"}, "option width is '-3'"),
        (FramesSource, {"image": "gif"}, "option image is 'gif'"),
        (MediaDefectsSource, {"minimum": "0s"}, "option minimum is '0s'"),
    ],
)
def test_options_that_make_no_sense_are_named(
    tmp_path: Path, source: type[DataSource], options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        rows_of(source, tmp_path, **options)


@pytest.mark.parametrize("source", [FramesSource, LoudnessSource, MediaDefectsSource])
def test_segments_are_chosen_by_options(folder: Path, source: type[DataSource]) -> None:
    reader = source({"path": str(folder), "stream": "main"}).reader(StructType())

    assert [Path(part.path).name for part in reader.partitions()] == ["h264.flv"]  # type: ignore[attr-defined]


def test_the_formats_work_in_spark(folder: Path, spark: SparkSession) -> None:
    register_sources(spark)
    path = str(folder / "h264.flv")
    frames = spark.read.format("frames").option("width", "32").load(path).selectExpr("'frames' as format", "stream")
    loudness = spark.read.format("loudness").load(path).selectExpr("'loudness' as format", "stream")
    defects = spark.read.format("media_defects").load(path).selectExpr("'media_defects' as format", "stream")

    rows = frames.union(loudness).union(defects).groupBy("format", "stream").count().collect()

    assert {(row["format"], row["stream"]): row["count"] for row in rows} == {
        ("frames", "main"): 6,
        ("loudness", "main"): 4,
    }
