"""rollup.view_minutes: what each view did in each minute, from which views and gold are made.

Owns the counters of viewer samples, by far the most numerous facts. Counters of facts are cumulative, so a minute's
totals are the largest that were told in it, and amounts are differences to the view's row before. The start, the first
picture and the stop of a view are points of the same counters: the stop has the final ones, so that the amounts of all
minutes of a view add up to what the server counted.

For the hours before, `carry_of` gives the totals of each view; with them, hours computed one by one give the same rows
as hours computed together.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.transforms.common import MINUTE_US, VIEW, VIEW_KEYS, at, micros_of

STALLED_LAG_MS: Final = 2000
"""A view that is farther behind than this, or has no place in the stream, is taken to stand still."""

_COUNTERS: Final = ("watched_us", "sent_bytes", "skips", "skipped_bytes", "retransmits")
# Names of the stream are among the keys because they cost less there than as aggregates of text.
_KEYS: Final = [*VIEW_KEYS, "app", "stream", "minute_us"]


def view_minutes(samples: DataFrame, plays: DataFrame, carry: DataFrame) -> DataFrame:
    """One row for each view and minute in which a fact tells of it.

    Takes viewer_sample facts of the hours, the three kinds of play facts of the same hours, and `carry_of` the hours
    before. A play that was never let in has no view and no row.
    """
    told = _told(samples, plays).withColumn("is_carried", F.lit(False))
    carried = carry.withColumn("is_carried", F.lit(True))
    in_order = Window.partitionBy(*VIEW_KEYS).orderBy("minute_us")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    # A minute without a sample tells nothing of some counters: they stand where they stood.
    total = {name: F.coalesce(F.max(name).over(so_far), F.lit(0)) for name in _COUNTERS}
    total_before = {name: F.coalesce(F.max(name).over(before), F.lit(0)) for name in _COUNTERS}
    return (
        told.unionByName(carried, allowMissingColumns=True)
        .select(
            "*",
            F.first("started_at_us").over(so_far).alias("view_started_at_us"),
            *(total[name].alias(f"{name}_total") for name in _COUNTERS),
            *(total_before[name].alias(f"{name}_before") for name in _COUNTERS),
        )
        .where(~F.col("is_carried"))
        .select(
            *VIEW,
            "app",
            "stream",
            at("minute_us").alias("minute"),
            at("view_started_at_us").alias("started_at"),
            at("first_at_us").alias("first_at"),
            at("last_at_us").alias("last_at"),
            (_minute_us_of("view_started_at_us") == F.col("minute_us")).alias("is_joined"),
            (F.col("stops") > 0).alias("is_left"),
            *((F.col(f"{name}_total") - F.col(f"{name}_before")).alias(name) for name in _COUNTERS),
            *(f"{name}_total" for name in _COUNTERS),
            "samples",
            "stalled_samples",
            "lag_samples",
            "lag_ms_max",
            F.coalesce("rtt_us_sum", F.lit(0)).alias("rtt_us_sum"),
            "rtt_samples",
            "rtt_us_max",
        )
    )


def carry_of(minutes: DataFrame) -> DataFrame:
    """One row for each view: when it began, and its totals at the end of the view minutes given."""
    return minutes.groupBy(*VIEW_KEYS).agg(
        F.max(micros_of("minute")).alias("minute_us"),
        F.min(micros_of("started_at")).alias("started_at_us"),
        *(F.max(f"{name}_total").alias(name) for name in _COUNTERS),
    )


def _told(samples: DataFrame, plays: DataFrame) -> DataFrame:
    """One row for each view and minute: the counters as they stood last, and how its samples were."""
    shared = [*VIEW, "app", "stream", "at_us", *_COUNTERS, "lag_ms", "rtt_us"]
    sampled = samples.select(*shared, F.lit(1).alias("sample"), F.lit(0).alias("stop"))
    is_stop = F.col("kind") == "play_stopped"
    played = plays.where(F.col("view_seq").isNotNull()).select(
        *shared, F.lit(0).alias("sample"), is_stop.cast("int").alias("stop")
    )
    is_stalled = F.col("lag_ms").isNull() | (F.col("lag_ms") > STALLED_LAG_MS)
    # Facts that tell no watch time are a start, or come before one was measured.
    started_at_us = F.col("at_us") - F.coalesce("watched_us", F.lit(0))
    return (
        sampled.unionByName(played)
        .withColumn("minute_us", _minute_us_of("at_us"))
        .groupBy(*_KEYS)
        .agg(
            F.min(started_at_us).alias("started_at_us"),
            F.min("at_us").alias("first_at_us"),
            F.max("at_us").alias("last_at_us"),
            *(F.max(name).alias(name) for name in _COUNTERS),
            F.sum("stop").alias("stops"),
            F.sum("sample").alias("samples"),
            F.sum(F.when(is_stalled, F.col("sample")).otherwise(0)).alias("stalled_samples"),
            F.count("lag_ms").alias("lag_samples"),
            F.max("lag_ms").alias("lag_ms_max"),
            F.sum("rtt_us").alias("rtt_us_sum"),
            F.count("rtt_us").alias("rtt_samples"),
            F.max("rtt_us").alias("rtt_us_max"),
        )
    )


def _minute_us_of(at_us: str) -> Column:
    return F.col(at_us) - F.col(at_us) % MINUTE_US
