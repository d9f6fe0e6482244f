"""Registering Python data sources in one session of several."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource


def register_data_sources(spark: SparkSession, sources: Iterable[type[DataSource]]) -> None:
    """Register these in a session by their names. Repeating it changes nothing."""
    with _as_active(spark):
        for source in sources:
            spark.dataSource.register(source)


@contextmanager
def _as_active(spark: SparkSession) -> Iterator[None]:
    """Make this the active session of the thread for the length of the block.

    Spark 4.2 and 4.3 look for the name in the active session before they register it in the given one: in a second
    session that fails with DATA_SOURCE_ALREADY_EXISTS.
    """
    try:
        session: Any = spark._jsparkSession  # noqa: SLF001 - PySpark has no public way to set the active session
        jvm: Any = spark._jvm  # noqa: SLF001
    except PySparkAttributeError:
        # Spark Connect, which has one session for each connection.
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
