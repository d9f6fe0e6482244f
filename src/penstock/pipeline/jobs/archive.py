"""The archive job: every finished recording verified, remuxed and shown in pictures, in parallel on the executors.

Owns the plan, the run and the catalogue (`gold.archive`). The driver reads the manifest, the folder of recordings and
the catalogue, and starts one task for each file that is new or has changed, the largest first. What a task does is in
`one_segment`. A killed run leaves finished segments with their marks, and the next run does the rest; the catalogue is
replaced in one step at the end. One run at a time for each archive.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.pipeline.jobs.archive_row import ArchiveOptions, ArchiveRow
from penstock.pipeline.jobs.one_segment import archive_segment
from penstock.pipeline.jobs.outputs import MARK_NAME, WORK_FOLDER, folder_of
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import file_schema_of
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.sources.files import locate
from penstock.pipeline.sources.flv.manifest import Segment, finished_segments, read_rows

_TABLE: Final = "gold.archive"
_PROGRESS_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """How far a run is. `done` counts files of this run, not of earlier ones."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """What a run did. `rows` is the whole catalogue, sorted by its key."""

    rows: tuple[ArchiveRow, ...]
    worked_on: int

    @property
    def statuses(self) -> dict[str, int]:
        """How many files have which status."""
        return dict(sorted(Counter(row.status for row in self.rows).items()))


Report = Callable[[ArchiveProgress], None]


def run_archive(
    spark: SparkSession, data_folder: str, options: ArchiveOptions | None = None, progress: Report | None = None
) -> ArchiveSummary:
    """Archive the recordings of a data folder into its `archive`, and write `gold.archive` into its lake."""
    data = Storage(data_folder)
    return archive(
        spark,
        recordings=data.address("recordings"),
        out=data.address("archive"),
        lake=data.address("lake"),
        options=options or ArchiveOptions(),
        progress=progress,
    )


def archive(
    spark: SparkSession,
    recordings: str,
    out: str,
    lake: str,
    *,
    options: ArchiveOptions,
    progress: Report | None = None,
) -> ArchiveSummary:
    """The same with each folder by its path or address."""
    recorded, archived, catalogue = Storage(recordings), Storage(out), Lake(Storage(lake))
    before = {row.key: row for row in read_catalogue(catalogue)}
    segments = finished_segments(read_rows(locate(recorded.root)))
    due = _due(segments, before, recorded, archived, options)
    archived.delete_folder(WORK_FOLDER)
    made = _run(spark, due, partial(_work, recordings=recorded.root, out=archived.root, options=options), progress)
    # Recordings that retention has deleted stay in the catalogue: their archive still exists.
    after = before | {row.key: row for row in made}
    rows = tuple(after[key] for key in sorted(after))
    if after != before or catalogue.pin(_TABLE) is None:
        _write_catalogue(catalogue, rows)
    return ArchiveSummary(rows, len(due))


def _due(
    segments: Iterable[Segment],
    before: dict[tuple[str, int], ArchiveRow],
    recorded: Storage,
    archived: Storage,
    options: ArchiveOptions,
) -> list[Segment]:
    """The segments that a task has to look at, the largest first."""
    files = {file.path: file for file in recorded.find("", recursive=False)}
    due: list[Segment] = []
    for segment in segments:
        row = before.get((segment.recording_id, segment.segment))
        is_done = row is not None and row.holds_for(files.get(segment.path), options.recipe)
        if not is_done or not archived.exists(f"{folder_of(segment)}/{MARK_NAME}"):
            due.append(segment)
    return sorted(due, key=lambda segment: -segment.bytes)


def _run(
    spark: SparkSession, due: list[Segment], work: Callable[[Segment], ArchiveRow], progress: Report | None
) -> list[ArchiveRow]:
    if not due:
        return []
    context = spark.sparkContext
    with _reporting(context, len(due), progress):
        return context.parallelize(due, len(due)).map(work).collect()


def _work(segment: Segment, recordings: str, out: str, options: ArchiveOptions) -> ArchiveRow:
    """What a task does: storages are opened where they are used, as connections do not travel."""
    return archive_segment(segment, Storage(recordings), Storage(out), options)


@contextmanager
def _reporting(context: SparkContext, total: int, progress: Report | None) -> Iterator[None]:
    """Report finished tasks for the length of the block, by Spark's own count of them."""
    if progress is None:
        yield
        return
    group = f"archive-{id(progress):x}"
    is_over = threading.Event()

    def tell() -> None:
        while not is_over.wait(_PROGRESS_EVERY_S):
            progress(ArchiveProgress(_finished_tasks(context, group), total))

    teller = threading.Thread(target=tell, name="archive-progress", daemon=True)
    context.setJobGroup(group, "archive")
    progress(ArchiveProgress(0, total))
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    progress(ArchiveProgress(total, total))


def _finished_tasks(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    stages = (tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds)
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def read_catalogue(lake: Lake) -> list[ArchiveRow]:
    """The rows of `gold.archive`; none before the first run."""
    pinned = lake.pin(_TABLE)
    return [] if pinned is None else [ArchiveRow.of_table(row) for row in lake.rows(pinned).to_pylist()]


def _write_catalogue(lake: Lake, rows: Iterable[ArchiveRow]) -> None:
    table = pa.Table.from_pylist([row.to_table() for row in rows], schema=file_schema_of(_TABLE))
    lake.put_days(_TABLE, lake.table(_TABLE).pin_or_create(), {"": table})
