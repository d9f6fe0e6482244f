"""Usage that a lost server reported in its last stream sample, but not yet in the samples of its viewers.

A viewer is sampled every few seconds, a stream every second, and a stream sample has the sums over its viewers. When a
server is killed, each view ends with its own last sample. The difference to the sums of the stream's last sample is
usage of these viewers together; it is added to gold.usage. Only what was not sampled and flushed yet is missing then.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.lake.tables import SERVER_LOST
from penstock.pipeline.transforms.common import micros_of

_ON_SERVER: Final = ["boot_id", "server_id", "app", "stream"]


def unreported_usage(views: DataFrame, publications: DataFrame) -> DataFrame:
    """One row per stream and minute in which views of a lost server were last seen, if there is unreported usage.

    Takes the publications of lost servers, and all views of those servers that were present when they were last seen.
    Samples of older servers have no sums; their streams have no row.
    """
    sampled = (
        publications.where(F.col("end_reason") == SERVER_LOST)
        .groupBy(*_ON_SERVER)
        .agg(
            F.max(micros_of("last_seen_at")).alias("sampled_at_us"),
            *(F.max_by(name, "last_seen_at").alias(name) for name in ("viewers_sent_bytes", "viewers_watched_us")),
        )
    )
    is_lost = F.col("end_reason") == SERVER_LOST
    left_at_us = micros_of(F.coalesce("ended_at", "last_seen_at"))
    # The sums leave out viewers who left normally before the sample, and viewers who came after it.
    is_in_sums = (micros_of("started_at") <= F.col("sampled_at_us")) & (is_lost | (left_at_us > F.col("sampled_at_us")))
    return (
        views.where(~F.col("is_failed_start"))
        .join(sampled, _ON_SERVER)
        .where(is_in_sums)
        .repartition("app", "stream")
        .groupBy(*_ON_SERVER, "viewers_sent_bytes", "viewers_watched_us")
        .agg(
            F.max(F.when(is_lost, F.col("last_seen_at"))).alias("last_seen_at"),
            F.sum("bytes_sent").alias("reported_bytes"),
            # Watch time as gold.audience counts it.
            F.sum(left_at_us - micros_of("started_at")).alias("reported_us"),
        )
        .groupBy("app", "stream", F.date_trunc("minute", "last_seen_at").alias("minute"))
        .agg(
            F.sum(_beyond("viewers_sent_bytes", "reported_bytes")).alias("unreported_bytes"),
            F.sum(_beyond("viewers_watched_us", "reported_us")).alias("unreported_us"),
        )
        .where(F.col("minute").isNotNull() & (F.col("unreported_bytes") + F.col("unreported_us") > 0))
    )


def _beyond(known: str, reported: str) -> Column:
    return F.greatest(F.col(known) - F.col(reported), F.lit(0))
