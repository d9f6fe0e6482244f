"""gold.usage: what a stream received and sent on a UTC day, for billing.

The bandwidth of a minute is its bytes over 60 s. Percentiles are by nearest rank over the minutes with traffic in that
direction. Unreported usage of a lost server counts in the minute in which its viewers were last seen.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.transforms.common import MINUTE_US, whole

_BILLED_PERCENT: Final = 95


def usage(audience: DataFrame, stream_health: DataFrame, unreported: DataFrame) -> DataFrame:
    """One row per stream and day with a publisher or a viewer. Takes whole days of all three."""
    nothing = F.lit(0).cast("bigint")
    # The views of the lost server are in the audience of that minute, so the left join finds a row.
    sent = audience.join(unreported, ["app", "stream", "minute"], "left").select(
        "app",
        "stream",
        "minute",
        nothing.alias("ingress_bytes"),
        _with("egress_bytes", "unreported_bytes"),
        _with("watched_us", "unreported_us"),
        "is_estimated",
    )
    received = stream_health.select(
        "app",
        "stream",
        "minute",
        "ingress_bytes",
        nothing.alias("egress_bytes"),
        nothing.alias("watched_us"),
        "is_estimated",
    )
    return (
        sent.unionByName(received)
        .groupBy("app", "stream", F.to_date("minute").alias("day"))
        .agg(
            F.sum("ingress_bytes").alias("ingress_bytes"),
            F.sum("egress_bytes").alias("egress_bytes"),
            F.sum("watched_us").alias("watched_us"),
            _billed_bps("ingress_bytes").alias("ingress_bps_p95"),
            _billed_bps("egress_bytes").alias("egress_bps_p95"),
            F.bool_or("is_estimated").alias("is_estimated"),
        )
        .select(
            "app",
            "stream",
            "day",
            "ingress_bytes",
            "egress_bytes",
            (F.col("watched_us") / F.lit(MINUTE_US)).alias("viewer_minutes"),
            "watched_us",
            "ingress_bps_p95",
            "egress_bps_p95",
            "is_estimated",
        )
    )


def _with(reported: str, unreported: str) -> Column:
    return (F.col(reported) + F.coalesce(F.col(unreported), F.lit(0))).alias(reported)


def _billed_bps(bytes_name: str) -> Column:
    # A day has 1440 minutes at most, so the list is short.
    busy = F.collect_list(F.when(F.col(bytes_name) > 0, whole(F.col(bytes_name) * 8, F.lit(60))))
    rank = whole(F.size(busy) * _BILLED_PERCENT + 99, F.lit(100)).cast("int")
    return F.coalesce(F.try_element_at(F.sort_array(busy), F.greatest(rank, F.lit(1))), F.lit(0)).cast("bigint")
