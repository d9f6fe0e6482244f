"""gold.recordings: the catalogue of recorded files."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def recordings(segments: DataFrame) -> DataFrame:
    """One row per file of a server, by its newest segment row: a repair replaces what a crash left.

    Takes all segments.
    """
    newest_first = Window.partitionBy("server_id", "path").orderBy(
        F.desc("closed_at"), F.desc("boot_id"), F.desc("recording_id"), F.desc("segment")
    )
    return (
        segments.withColumn("place", F.row_number().over(newest_first))
        .where(F.col("place") == 1)
        .select(
            "path",
            "app",
            "stream",
            "server_id",
            "recording_id",
            "segment",
            "started_at",
            "duration_ms",
            "bytes",
            "video",
            "audio",
            "keyframes",
            "gaps",
            "gap_ms",
            "status",
        )
    )
