"""Finished segments as a stream: offsets on the manifest, limits, restarts."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles

from penstock.errors import ConfigError
from penstock.pipeline.sources import register_sources
from penstock.pipeline.sources.flv.stream import FlvStreamReader
from tests.pipeline.sources.recordings import Row, make_numbered, manifest_row, rows_of, write_manifest

ALL = ReadAllAvailable()


def reader_of(folder: Path, **options: str) -> FlvStreamReader:
    return FlvStreamReader({"path": str(folder)} | options, 0, has_payload=False, is_numbered=True)


def read_between(reader: FlvStreamReader, start: dict[str, object], end: dict[str, object]) -> list[str]:
    """The files of a batch, and from where on they are read."""
    return [f"{part.location.name} {part.start}" for part in reader.partitions(start, end)]  # type: ignore[attr-defined]


def closed(name: str, second: int, file_bytes: int = 100, **changes: object) -> Row:
    ended_at = f"2026-11-15T20:00:{second:02d}Z"
    changes = {"recording_id": name, "ended_at": ended_at, "bytes": file_bytes} | changes
    return manifest_row(f"{name}.flv", "s") | changes


def opened(name: str) -> Row:
    return manifest_row(f"{name}.flv", "s", "open", recording_id=name)


def test_only_closed_and_repaired_segments_are_read_each_once(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    rows = [opened("a"), closed("a", 1), opened("b"), opened("c"), closed("d", 2, status="failed")]
    write_manifest(tmp_path, rows)

    first = reader.latestOffset(start, ALL)
    assert read_between(reader, start, first) == ["a.flv 0"]
    assert reader.latestOffset(first, ALL) == first

    write_manifest(tmp_path, [*rows, closed("d", 3, status="repaired"), closed("b", 4)])
    second = reader.latestOffset(first, ALL)
    assert read_between(reader, first, second) == ["d.flv 0", "b.flv 0"]
    assert read_between(reader, start, first) == ["a.flv 0"]


def test_limits_bound_a_batch_and_one_segment_always_fits(tmp_path: Path) -> None:
    write_manifest(tmp_path, [closed(name, second) for second, name in enumerate("abcde")])
    reader = reader_of(tmp_path, maxFilesPerTrigger="2")
    start = reader.initialOffset()

    assert reader.getDefaultReadLimit() == ReadMaxFiles(2)
    assert reader_of(tmp_path, maxBytesPerTrigger="9").getDefaultReadLimit() == ReadMaxBytes(9)
    assert reader.latestOffset(start, ReadMaxFiles(2))["segment"] == "b/0"
    assert reader.latestOffset(start, ReadMaxBytes(350))["segment"] == "c/0"
    assert reader.latestOffset(start, ReadMaxBytes(1))["segment"] == "a/0"


def test_available_now_ends_at_what_was_there(tmp_path: Path) -> None:
    rows = [closed("a", 1), closed("b", 2)]
    write_manifest(tmp_path, rows)
    reader = reader_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    write_manifest(tmp_path, [*rows, closed("c", 3)])

    end = reader.latestOffset(reader.initialOffset(), ALL)

    assert end["segment"] == "b/0"
    assert reader.latestOffset(end, ALL) == end


def test_a_compacted_manifest_loses_and_doubles_nothing(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    write_manifest(tmp_path, [opened("a"), closed("a", 1), opened("b"), closed("b", 2), opened("c"), closed("c", 3)])
    start = reader.latestOffset(reader.initialOffset(), ReadMaxFiles(2))

    # The segment of the offset is still there, and one before it was deleted.
    write_manifest(tmp_path, [closed("b", 2), closed("c", 3), closed("d", 4)])
    assert read_between(reader, start, reader.latestOffset(start, ALL)) == ["c.flv 0", "d.flv 0"]
    # The segment of the offset was deleted too.
    write_manifest(tmp_path, [closed("a", 1), closed("c", 3), closed("d", 4)])
    assert read_between(reader, start, reader.latestOffset(start, ALL)) == ["c.flv 0", "d.flv 0"]


def test_a_segment_that_was_gone_on_with_gives_what_is_new(tmp_path: Path) -> None:
    make_numbered(tmp_path / "a.flv", gops=2)
    whole = (tmp_path / "a.flv").read_bytes()
    half = len(whole) - 585
    write_manifest(tmp_path, [closed("a", 1, half)])
    reader = reader_of(tmp_path)
    first = reader.latestOffset(reader.initialOffset(), ALL)
    write_manifest(tmp_path, [closed("a", 1, half), opened("a"), closed("a", 9, len(whole))])
    second = reader.latestOffset(first, ALL)

    before = rows_of(reader.partitions(reader.initialOffset(), first))  # type: ignore[arg-type]
    after = rows_of(reader.partitions(first, second))  # type: ignore[arg-type]

    assert [row["tag_index"] for row in before + after] == list(range(1 + 20))
    assert after[0]["is_key"]


def test_segments_are_chosen_by_options(tmp_path: Path) -> None:
    write_manifest(tmp_path, [closed("a", 1, stream="one"), closed("b", 2), closed("c", 3, stream="one")])
    reader = reader_of(tmp_path, stream="one")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxFiles(1))

    assert read_between(reader, start, first) == ["a.flv 0"]
    assert read_between(reader, first, reader.latestOffset(first, ALL)) == ["c.flv 0"]


def test_a_stream_is_of_one_folder() -> None:
    with pytest.raises(ConfigError, match="one folder"):
        FlvStreamReader({"paths": '["a", "b"]'}, 0, has_payload=False, is_numbered=True)


def test_a_query_goes_on_where_its_checkpoint_is(spark: SparkSession, tmp_path: Path) -> None:
    register_sources(spark)
    folder = tmp_path / "recordings"
    folder.mkdir()
    rows = []
    for number in range(3):
        make_numbered(folder / f"{number}.flv", gops=1 + number)
        rows.append(closed(str(number), number, (folder / f"{number}.flv").stat().st_size))

    def run() -> dict[str, int]:
        stream = spark.readStream.format("flv").option("maxFilesPerTrigger", "1").load(str(folder))
        counted = stream.where("kind = 'video'").selectExpr("path", "offset")
        query = (
            counted.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        written = spark.read.parquet(str(tmp_path / "out")).groupBy("path").count().collect()
        return {Path(row["path"]).name: row["count"] for row in written}

    write_manifest(folder, rows[:2])
    first = run()
    write_manifest(folder, rows)
    second = run()

    assert first == {"0.flv": 5, "1.flv": 10}
    assert second == {"0.flv": 5, "1.flv": 10, "2.flv": 15}
