"""A live stream as rows: the spool and its numbers, and the format rtmp against a real server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.errors import ConfigError, MalformedInput, RemoteRefused
from penstock.pipeline.sources import register_sources
from penstock.pipeline.sources.files import locate
from penstock.pipeline.sources.rtmp.source import RtmpSource, RtmpStreamReader
from penstock.pipeline.sources.rtmp.spool import Spool, read_rows
from tests.support.live_publisher import live_publisher
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import free_port
from tests.support.samples import golden_samples

DEADLINE_S = 20.0


def spool_in(folder: Path) -> Spool:
    spool = Spool(locate(str(folder)))
    spool.own()
    return spool


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": list(values)})


def values_between(spool: Spool, start: int, end: int) -> list[int]:
    values: list[int] = []
    for file in spool.files_between(start, end):
        rows = read_rows(file.location, max(start - file.first, 0), min(end - file.first, file.count))
        values += rows["value"].to_pylist()
    return values


def test_rows_keep_their_numbers_over_a_restart(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append(batch(10, 11, 12))
    spool.append(batch(13, 14))

    again = spool_in(tmp_path)
    again.append(batch(15))

    assert values_between(spool, 0, 5) == [10, 11, 12, 13, 14]
    assert values_between(again, 2, 6) == [12, 13, 14, 15]
    assert again.next_row == 6


def test_committed_rows_are_freed_and_their_numbers_are_not_used_again(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    for value in range(4):
        spool.append(batch(value, value))

    spool.free(5)
    assert len(list(tmp_path.glob("rows-*"))) == 2
    assert values_between(spool, 5, 8) == [2, 3, 3]
    spool.free(8)
    assert len(list(tmp_path.glob("rows-*"))) == 1
    assert spool.spooled_bytes == 0
    assert spool_in(tmp_path).next_row == 8


def test_rows_that_are_gone_are_told(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    for value in range(3):
        spool.append(batch(value, value))
    spool.free(4)

    with pytest.raises(MalformedInput, match="holds 2 of the rows 2 to 6"):
        spool.files_between(2, 6)


def test_a_new_writer_ends_the_one_before(tmp_path: Path) -> None:
    old, new = spool_in(tmp_path), spool_in(tmp_path)

    assert new.append(batch(1))
    assert not old.append(batch(2))
    assert values_between(spool_in(tmp_path), 0, 1) == [1]


def test_numbers_go_on_behind_what_was_committed_when_the_folder_was_emptied(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.number_from(100)
    spool.append(batch(1))

    assert values_between(spool, 100, 101) == [1]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="option spool"):
        RtmpSource({"url": "rtmp://127.0.0.1/live/a"}).streamReader(RtmpSource({}).schema())
    with pytest.raises(MalformedInput):
        RtmpSource({"url": "http://127.0.0.1", "spool": "s"}).streamReader(RtmpSource({}).schema())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockServer]:
    config = "[limits]\nmax_viewers_per_stream = 1\n"
    with penstock_server(tmp_path_factory.mktemp("server"), config=config) as server:
        yield server


@contextmanager
def reading(url: str, folder: Path, **options: int) -> Iterator[RtmpStreamReader]:
    settings = {"max_rows": 0, "max_spool_bytes": 2**30} | options
    reader = RtmpStreamReader(url, locate(str(folder)), has_payload=True, **settings)
    try:
        yield reader
    finally:
        reader.stop()


def wait_for_rows(reader: RtmpStreamReader, start: int, rows: int) -> int:
    """The latest row, once there are so many behind the start."""
    pause = threading.Event()
    for _ in range(int(DEADLINE_S / 0.05)):
        latest = reader.latestOffset({"row": start}, ReadAllAvailable())["row"]
        if latest - start >= rows:
            return latest
        pause.wait(0.05)
    raise AssertionError(f"{latest - start} rows in {DEADLINE_S} s")


def rows_between(reader: RtmpStreamReader, start: int, end: int) -> list[dict[str, object]]:
    parts = reader.partitions({"row": start}, {"row": end})
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def test_rows_are_what_was_published_and_can_be_read_again(server: PenstockServer, tmp_path: Path) -> None:
    samples = golden_samples("ffmpeg_publish")
    with live_publisher(server.port, "a", samples) as publisher, reading(server.url("a"), tmp_path) as reader:
        end = wait_for_rows(reader, 0, 60)
        assert reader.latestOffset({"row": 5}, ReadMaxRows(7)) == {"row": 12}
        rows = rows_between(reader, 0, end)
        assert rows_between(reader, 3, 20) == rows[3:20]
        reader.commit({"row": 20})
        assert rows_between(reader, 20, end) == rows[20:]
        publisher.stop()

    sent = {sample.payload for sample in samples}
    assert {row["kind"] for row in rows} == {"video", "audio", "data"}
    assert all(row["payload"] in sent for row in rows if row["kind"] != "data")
    assert next(row["role"] for row in rows if row["kind"] == "video") == "config"
    assert next(row for row in rows if row["kind"] == "video" and row["role"] == "frame")["is_key"]
    assert {row["codec"] for row in rows} == {"H.264 AVC", "AAC", None}
    assert len({row["connection"] for row in rows}) == 1
    arrivals = [int(str(row["arrival_us"])) for row in rows]
    assert arrivals == sorted(arrivals)


def test_a_server_that_restarts_is_found_again_and_the_seam_is_seen(tmp_path: Path) -> None:
    samples = golden_samples("ffmpeg_publish")
    port = free_port()
    url = f"rtmp://127.0.0.1:{port}/live/b"
    with reading(url, tmp_path / "spool") as reader:
        for _ in range(2):
            seen = wait_for_rows(reader, 0, 0)
            with (
                penstock_server(tmp_path, ["--rtmp", f"127.0.0.1:{port}"]) as server,
                live_publisher(server.port, "b", samples),
            ):
                end = wait_for_rows(reader, seen, 10)
        rows = rows_between(reader, 0, end)

    connections = [int(str(row["connection"])) for row in rows]
    assert connections == sorted(connections)
    assert len(set(connections)) == 2
    assert [row["role"] for row in rows if row["kind"] == "video"].count("config") == 2


def test_a_full_spool_holds_the_server_back(server: PenstockServer, tmp_path: Path) -> None:
    with (
        live_publisher(server.port, "c", golden_samples("ffmpeg_publish")),
        reading(server.url("c"), tmp_path, max_spool_bytes=1) as reader,
    ):
        # One file that is kept, and one behind it that makes the spool full.
        end = wait_for_rows(reader, 0, 1)
        threading.Event().wait(1.0)
        full = reader.latestOffset({"row": 0}, ReadAllAvailable())["row"]
        files = len(list(tmp_path.glob("rows-*")))
        reader.commit({"row": full})
        later = wait_for_rows(reader, full, 1)

    assert files <= 3
    assert end <= full < later


def test_a_server_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    with reading(f"rtmp://127.0.0.1:{free_port()}/live/a", tmp_path) as reader:
        assert reader.latestOffset({"row": 7}, ReadAllAvailable()) == {"row": 7}


def test_a_server_that_refuses_the_first_play_fails_the_query(server: PenstockServer, tmp_path: Path) -> None:
    url = server.url("e")
    with (
        live_publisher(server.port, "e", golden_samples("ffmpeg_publish")),
        reading(url, tmp_path / "one") as one,
        reading(url, tmp_path / "two") as two,
    ):
        wait_for_rows(one, 0, 1)
        with pytest.raises(RemoteRefused, match="viewers"):
            two.prepareForTriggerAvailableNow()


def test_a_query_reads_what_is_at_hand_and_goes_on_later(
    server: PenstockServer, spark: SparkSession, tmp_path: Path
) -> None:
    register_sources(spark)

    def run() -> list[tuple[int, str, int]]:
        stream = (
            spark.readStream.format("rtmp")
            .option("url", server.url("d"))
            .option("spool", str(tmp_path / "spool"))
            .load()
        )
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).select("arrival_us", "kind", "dts_ms").collect()
        return sorted((row["arrival_us"], row["kind"], row["dts_ms"]) for row in rows)

    with live_publisher(server.port, "d", golden_samples("ffmpeg_publish")):
        first = run()
        second = run()

    assert len(first) > 3
    assert len(second) > len(first)
    assert second[: len(first)] == first
