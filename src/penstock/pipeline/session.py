"""One Spark session, with the settings that the pipeline relies on.

Owns every setting that a result depends on: the session is in UTC, timestamps are stored as microseconds, and filters
reach our sources. What only costs or saves time is set here too, for a machine of few cores.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

NEEDED: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.python.filterPushdown.enabled": "true",
}
"""What results depend on, whoever made the session."""

CHOSEN: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Hash maps of arrays that are gathered spill only when they are large, instead of after 128 keys.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "256",
}
"""What makes it quick on one machine."""


def open_session(master: str, cores: int, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session of this process, or the one that is there."""
    builder = SparkSession.builder.master(master).appName("penstock")
    for name, value in {**CHOSEN, "spark.sql.shuffle.partitions": str(2 * cores), **(settings or {}), **NEEDED}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
