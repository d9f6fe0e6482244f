"""Sources by their names, known to one session."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource


def make_known(spark: SparkSession, sources: Iterable[type[DataSource]]) -> None:
    """Let a session know these. Doing it again changes nothing."""
    with _as_current(spark):
        for source in sources:
            spark.dataSource.register(source)


@contextmanager
def _as_current(spark: SparkSession) -> Iterator[None]:
    """Let this be the current session of the thread meanwhile.

    Spark asks that one whether a source is known, and makes it known to the given one: of two sessions the second would
    be told that it has the source already.
    """
    try:
        session: Any = spark._jsparkSession  # noqa: SLF001 - there is no other way to it
        jvm: Any = spark._jvm  # noqa: SLF001
    except PySparkAttributeError:
        # Spark Connect, of which each connection has one session.
        yield
        return
    before = jvm.SparkSession.getActiveSession()
    jvm.SparkSession.setActiveSession(session)
    try:
        yield
    finally:
        if before.isDefined():
            jvm.SparkSession.setActiveSession(before.get())
        else:
            jvm.SparkSession.clearActiveSession()
