"""Answers by a Spark session of this process.

Owns how a query is run: read-only unless told otherwise, rows bounded, and stopped when it takes too long. The tables
that a query names are made known just before it.
"""

import contextlib
import threading
import uuid
from collections.abc import Iterator
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import PipelineError
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.queries.answers import Answer
from penstock.pipeline.queries.statements import check_only_reads, one_line, reading_session
from penstock.pipeline.queries.views import LakeViews

MAX_LIMIT: Final = 1_000_000

_CANCEL_AGAIN_S: Final = 0.2


class SparkQueryRunner:
    """Answers by a Spark session of this process."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake | None = None,
        recordings: str | None = None,
        *,
        is_writing: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Without `lake` only what the session knows already can be asked."""
        self._spark = spark if is_writing else reading_session(spark)
        self._tables = None if lake is None else LakeViews(self._spark, lake, recordings)
        self._is_writing = is_writing
        self._timeout_s = timeout_s

    def run(self, query: str, limit: int) -> Answer:
        query = query.strip().rstrip(";")
        if not query:
            raise PipelineError("sql: the query is empty")
        if not self._is_writing:
            check_only_reads(self._spark, query)
        limit = min(max(limit, 0), MAX_LIMIT)
        try:
            with self._time_limit():
                asked = self._spark.sql(query) if self._tables is None else self._tables.sql(query)
                rows = asked.limit(limit + 1).toArrow()
        except (PySparkException, Py4JError) as error:
            raise PipelineError(f"sql: {one_line(error)}") from error
        return Answer.of_arrow(rows, limit)

    @contextlib.contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Cancels the jobs of this thread once the time is over."""
        if self._timeout_s is None:
            yield
            return
        context, group = self._spark.sparkContext, f"penstock-sql-{uuid.uuid4()}"
        is_done, is_over = threading.Event(), threading.Event()

        def watch(timeout_s: float) -> None:
            if is_done.wait(timeout_s):
                return
            is_over.set()
            context.cancelJobGroup(group)
            # Spark may still be planning, and cancels only what runs: so again until the query has ended.
            while not is_done.wait(_CANCEL_AGAIN_S):
                context.cancelJobGroup(group)

        context.setJobGroup(group, "penstock pipeline sql", interruptOnCancel=True)
        watcher = threading.Thread(target=watch, args=(self._timeout_s,), name="sql-time-limit", daemon=True)
        watcher.start()
        try:
            yield
        except (PySparkException, Py4JError) as error:
            if is_over.is_set():
                raise PipelineError(f"sql: stopped after {self._timeout_s:g} s") from error
            raise
        finally:
            is_done.set()
            watcher.join()
            # The next query of this thread must not belong to a group that was stopped.
            for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context.setLocalProperty(name, None)  # type: ignore[arg-type]
