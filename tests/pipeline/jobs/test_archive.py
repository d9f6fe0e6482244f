"""The archive job on Spark: every recording once, whatever they are like and whatever happens in between."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from penstock.pipeline.jobs.archive import ArchiveProgress, ArchiveSummary, read_catalogue, run_archive
from penstock.pipeline.jobs.archive_row import ArchiveOptions
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TABLES
from tests.pipeline.jobs.recorded import decoding_errors, segment_of, write_manifest
from tests.pipeline.scenarios.stage import descendants, left_running
from tests.support.spark_cluster import READY_DEADLINE_S, SparkCluster
from tests.test_architecture import REPOSITORY

OPTIONS = ArchiveOptions(thumbnail_width_px=64)
DEADLINE_S = 180.0

ARCHIVE_ON_CLUSTER = """
from penstock.pipeline.jobs.archive import run_archive
spark = open_session(SETTINGS)
ship_package(spark)
summary = run_archive(spark, sys.argv[1])
print(summary.statuses, summary.worked_on)
"""


@pytest.fixture
def data(tmp_path: Path, recording: Path) -> Path:
    """A data folder with a whole recording, a torn one, one that is noise and one of a hostile name."""
    recordings = tmp_path / "data" / "recordings"
    recordings.mkdir(parents=True)
    whole = recording.read_bytes()
    (recordings / "a.flv").write_bytes(whole)
    (recordings / "b.flv").write_bytes(whole[:-1000])
    (recordings / "c.flv").write_bytes(b"noise" * 1000)
    (recordings / "d.flv").write_bytes(whole)
    segments = [
        segment_of(recordings / "a.flv", recording_id="a"),
        segment_of(recordings / "b.flv", recording_id="b", segment=3),
        segment_of(recordings / "c.flv", recording_id="c"),
        segment_of(recordings / "d.flv", recording_id="d", stream="../../outside"),
        segment_of(recordings / "e.flv", recording_id="e"),
    ]
    write_manifest(recordings, segments)
    return tmp_path / "data"


def statuses(summary: ArchiveSummary) -> dict[str, str]:
    return {row.recording_id: row.status for row in summary.rows}


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def marks_of_a_killed_run(data: Path) -> list[Path]:
    """Start a run, kill it with its Java as soon as it has finished a few recordings, and say which."""
    command = [sys.executable, "-m", "tests.pipeline.jobs.archive_run", str(data)]
    process = subprocess.Popen(command, cwd=REPOSITORY, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        return wait_for_marks(data, 3, process)
    finally:
        # PySpark's daemon and its workers have a group of their own, and each worker goes on until its task has ended.
        # The whole group is killed, since the daemon may fork one more after it was looked at.
        workers = [pid for pid, name in descendants(process.pid).items() if name.startswith("python")]
        groups = {os.getpgid(pid) for pid in (process.pid, *workers)}
        for group in groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        process.wait()
        assert left_running(workers, DEADLINE_S) == []


def wait_for_marks(data: Path, count: int, process: subprocess.Popen[bytes]) -> list[Path]:
    """The marks of the first recordings that a run has finished."""
    give_up_at = time.monotonic() + DEADLINE_S
    while len(marks := list(data.glob("archive/*/*/*/archive.json"))) < count:
        assert process.poll() is None, f"the run ended with status {process.returncode} and {len(marks)} recordings"
        assert time.monotonic() < give_up_at, f"{len(marks)} recordings in {DEADLINE_S} s"
        time.sleep(0.02)
    return marks


def test_every_recording_becomes_a_row_and_is_worked_on_once(spark: SparkSession, data: Path) -> None:
    told: list[ArchiveProgress] = []
    first = run_archive(spark, str(data), OPTIONS, told.append)
    assert statuses(first) == {"a": "archived", "b": "damaged", "c": "unusable", "d": "archived", "e": "missing"}
    assert first.statuses == {"archived": 2, "damaged": 1, "missing": 1, "unusable": 1}
    assert first.worked_on == 5
    assert (told[0], told[-1]) == (ArchiveProgress(0, 5), ArchiveProgress(5, 5))
    assert sorted(path.name for path in data.iterdir()) == ["archive", "lake", "recordings"]
    assert not (data / "archive" / "_work").exists() or not list((data / "archive" / "_work").iterdir())

    before = times(data)
    second = run_archive(spark, str(data), OPTIONS)
    assert second.rows == first.rows
    # Only the one that is missing is looked for again.
    assert second.worked_on == 1
    assert times(data) == before

    # Retention took one recording, and another grew.
    shutil.copy(data / "recordings" / "a.flv", data / "recordings" / "c.flv")
    os.utime(data / "recordings" / "c.flv", (1, 1))
    kept = [segment_of(data / "recordings" / name, recording_id=name[0]) for name in ("b.flv", "c.flv")]
    write_manifest(data / "recordings", [replace(kept[0], segment=3), kept[1]])
    third = run_archive(spark, str(data), OPTIONS)
    assert third.worked_on == 1
    assert statuses(third) == statuses(first) | {"c": "archived"}


def test_the_catalogue_is_a_gold_table_for_any_reader(spark: SparkSession, data: Path) -> None:
    summary = run_archive(spark, str(data), OPTIONS)
    assert read_catalogue(Lake(Storage(data / "lake"))) == list(summary.rows)
    catalogue = DeltaTable(data / "lake/gold/archive").to_pyarrow_dataset()
    assert catalogue.schema.names == [column.name for column in TABLES["gold.archive"].columns]
    question = """
        select recording_id, segment, status, started_at::varchar, hls_segments, thumbnails, mp4_path
        from catalogue where mp4_path is not null order by recording_id"""
    started_at = "2026-11-15 20:00:00.25+00"
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("catalogue", catalogue)
        rows = connection.execute(question).fetchall()
    outside = "live/outside-e28b700f/d-0/recording.mp4"
    assert rows == [
        ("a", 0, "archived", started_at, 3, 1, "live/show/a-0/recording.mp4"),
        ("b", 3, "damaged", started_at, 3, 1, "live/show/b-3/recording.mp4"),
        ("d", 0, "archived", started_at, 3, 1, outside),
    ]
    assert decoding_errors(data / "archive" / outside) == ""


def write_recordings(data: Path, recording: Path, count: int) -> None:
    """So many recordings, all the same."""
    recordings = data / "recordings"
    recordings.mkdir()
    paths = [recordings / f"{number:03d}.flv" for number in range(count)]
    for path in paths:
        os.link(recording, path)
    write_manifest(recordings, [segment_of(path, recording_id=path.stem) for path in paths])


def test_a_killed_run_is_gone_on_with(spark: SparkSession, tmp_path: Path, recording: Path) -> None:
    write_recordings(tmp_path, recording, 24)
    survived = {path: path.stat().st_mtime_ns for path in marks_of_a_killed_run(tmp_path)}
    assert 0 < len(survived) < 24
    assert read_catalogue(Lake(Storage(tmp_path / "lake"))) == []

    summary = run_archive(spark, str(tmp_path))
    assert summary.statuses == {"archived": 24}
    assert {path: path.stat().st_mtime_ns for path in survived} == survived
    assert not list(tmp_path.glob("archive/_work/*"))
    outputs = {row.recording_id: (row.mp4_bytes, row.hls_bytes, row.thumbnails) for row in summary.rows}
    assert len(set(outputs.values())) == 1


def test_a_cluster_archives_everything_although_it_loses_a_worker(
    cluster: SparkCluster, tmp_path: Path, recording: Path
) -> None:
    write_recordings(tmp_path, recording, 24)
    with cluster.driver(ARCHIVE_ON_CLUSTER, [str(tmp_path)]) as driver:
        wait_for_marks(tmp_path, 3, driver.process)
        cluster.kill_worker()
        assert driver.wait_for_exit(READY_DEADLINE_S) == 0, driver.log_text()
        assert driver.log_text().endswith("{'archived': 24} 24\n")
    assert len(read_catalogue(Lake(Storage(tmp_path / "lake")))) == 24
