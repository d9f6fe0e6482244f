"""rollup.view_minutes: viewer samples aggregated by view and minute; views and gold are made of it.

Viewer samples are by far the most numerous facts, and this is the only place that aggregates them. Counters in facts
are cumulative: the total of a minute is the largest value in it, and the amount of a minute is the difference to the
view's previous row. play_started, play_first_keyframe and play_stopped are points of the same counters; the stop has
the final values, so the amounts of a view add up to what the server counted.

`carry_of` gives the totals of each view at the end of earlier hours. With it, hours that are computed one by one give
the same rows as hours that are computed together.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.transforms.common import MINUTE_US, VIEW, VIEW_KEYS, at, micros_of

STALLED_LAG_MS: Final = 2000
"""A sample farther behind the live edge than this, or without a lag (waiting for a key frame), counts as stalled."""

_COUNTERS: Final = ("watched_us", "sent_bytes", "skips", "skipped_bytes", "retransmits")
# app and stream are grouping keys, although the view decides them: as aggregates of text they cost more.
_KEYS: Final = [*VIEW_KEYS, "app", "stream", "minute_us"]


def view_minutes(samples: DataFrame, plays: DataFrame, carry: DataFrame) -> DataFrame:
    """One row per view and minute with a fact about it.

    Takes the viewer_sample facts of the hours, the three kinds of play facts of the same hours, and `carry_of` the
    hours before. A play that never started has no view and no row.
    """
    reported = _reported(samples, plays).withColumn("is_carried", F.lit(False))
    carried = carry.withColumn("is_carried", F.lit(True))
    in_order = Window.partitionBy(*VIEW_KEYS).orderBy("minute_us")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    # In a minute without a sample some counters are null: they keep their last value.
    total = {name: F.coalesce(F.max(name).over(so_far), F.lit(0)) for name in _COUNTERS}
    total_before = {name: F.coalesce(F.max(name).over(before), F.lit(0)) for name in _COUNTERS}
    return (
        reported.unionByName(carried, allowMissingColumns=True)
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
    """One row per view: its start, and its totals at the end of the view minutes given."""
    return minutes.groupBy(*VIEW_KEYS).agg(
        F.max(micros_of("minute")).alias("minute_us"),
        F.min(micros_of("started_at")).alias("started_at_us"),
        *(F.max(f"{name}_total").alias(name) for name in _COUNTERS),
    )


def _reported(samples: DataFrame, plays: DataFrame) -> DataFrame:
    """One row per view and minute: the largest counters, and aggregates of its samples."""
    shared = [*VIEW, "app", "stream", "at_us", *_COUNTERS, "lag_ms", "rtt_us"]
    sampled = samples.select(*shared, F.lit(1).alias("sample"), F.lit(0).alias("stop"))
    is_stop = F.col("kind") == "play_stopped"
    played = plays.where(F.col("view_seq").isNotNull()).select(
        *shared, F.lit(0).alias("sample"), is_stop.cast("int").alias("stop")
    )
    is_stalled = F.col("lag_ms").isNull() | (F.col("lag_ms") > STALLED_LAG_MS)
    # Facts without watch time are the start, or come before watch time was measured.
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
