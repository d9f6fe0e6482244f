"""What a lost server had sent to its viewers, and none of their own samples had told yet.

A viewer is sampled every few seconds, a stream every second, and the stream's sample has the sums of those who watch.
So when a server is killed, a view ends with its last sample, and what is beyond in the stream's last one is known of
all who watched together. It is added to usage, which is then short by what was not sampled and flushed yet.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.tables import SERVER_LOST
from penstock.pipeline.transforms.common import micros_of

_ON_SERVER: Final = ["boot_id", "server_id", "app", "stream"]


def untold(views: DataFrame, publications: DataFrame) -> DataFrame:
    """One row for each stream and minute in which views of a lost server were last seen, and more is known to be sent.

    Takes the publications of lost servers, and of the same servers all views that were there when those were last seen.
    Streams whose last sample has no sums, as older servers tell them, have no row.
    """
    # Few rows on either side, for which exchanges between stages cost more than the work: as few of them as can be.
    sampled = (
        publications.where(F.col("end_reason") == SERVER_LOST)
        .coalesce(1)
        .groupBy(*_ON_SERVER)
        .agg(
            F.max(micros_of("last_seen_at")).alias("sampled_at_us"),
            *(F.max_by(name, "last_seen_at").alias(name) for name in ("viewers_sent_bytes", "viewers_watched_us")),
        )
    )
    is_lost = F.col("end_reason") == SERVER_LOST
    left_at_us = micros_of(F.coalesce("ended_at", "last_seen_at"))
    # Who left in order before the sample is not in its sums, and neither is who came after it.
    is_in_sums = (micros_of("started_at") <= F.col("sampled_at_us")) & (is_lost | (left_at_us > F.col("sampled_at_us")))
    return (
        views.where(~F.col("is_failed_start"))
        .join(F.broadcast(sampled), _ON_SERVER)
        .where(is_in_sums)
        .repartition("app", "stream")
        .groupBy(*_ON_SERVER, "viewers_sent_bytes", "viewers_watched_us")
        .agg(
            F.max(F.when(is_lost, F.col("last_seen_at"))).alias("last_seen_at"),
            F.sum("bytes_sent").alias("told_bytes"),
            # As the audience counts it.
            F.sum(left_at_us - micros_of("started_at")).alias("told_us"),
        )
        .groupBy("app", "stream", F.date_trunc("minute", "last_seen_at").alias("minute"))
        .agg(
            F.sum(_beyond("viewers_sent_bytes", "told_bytes")).alias("untold_bytes"),
            F.sum(_beyond("viewers_watched_us", "told_us")).alias("untold_us"),
        )
        .where(F.col("minute").isNotNull() & (F.col("untold_bytes") + F.col("untold_us") > 0))
    )


def _beyond(known: str, told: str) -> Column:
    return F.greatest(F.col(known) - F.col(told), F.lit(0))
