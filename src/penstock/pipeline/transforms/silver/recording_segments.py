"""silver.recording_segments: recorded files, by the newest fact about each.

A file that failed may be repaired at a later start of its server; the row then describes the repaired file. It stays in
the hour in which the file was started.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.transforms.common import at

SEGMENT: Final = ["server_id", "recording_id", "segment"]


def recording_segments(closed: DataFrame, gaps: DataFrame) -> DataFrame:
    """One row per recorded file, from its recording_segment_closed and recording_gap facts."""
    latest_first = Window.partitionBy(*SEGMENT).orderBy(F.desc("at_us"), F.desc("seq"), "boot_id")
    missing = gaps.groupBy(*SEGMENT).agg(F.sum("gap_ms").alias("gap_ms"))
    return (
        closed.withColumn("age", F.row_number().over(latest_first))
        .where(F.col("age") == 1)
        .drop("gap_ms")
        .join(missing, SEGMENT, "left")
        .select(
            "server_id",
            "boot_id",
            "recording_id",
            "segment",
            "app",
            "stream",
            "path",
            "status",
            "reason",
            at("started_at_us").alias("started_at"),
            at("at_us").alias("closed_at"),
            "duration_ms",
            F.col("size_bytes").alias("bytes"),
            "video",
            "audio",
            "keyframes",
            "gaps",
            F.coalesce("gap_ms", F.lit(0)).alias("gap_ms"),
        )
    )
