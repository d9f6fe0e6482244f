"""gold.audience: how many watched a stream in each minute, over all servers.

A view is present from its start to its end, or to when it was last seen while it is open. Its start is a change of +1
viewer and its end one of -1. The sum of the changes up to a minute is who is there at its end, and watch time within
the minute is a whole minute for each of those, less what the changes in it came too late for. So no view is spread
over its minutes. The peak sorts the changes of one minute only, on top of who was there when it began; different
viewers are counted by joining the minutes of one viewer's views first, and are changes again from there on.
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.transforms.common import MINUTE_US
from penstock.pipeline.transforms.times import SECOND_US, hours_span, start_us, within_hours

_STREAM: Final = ("app", "stream")
_SUMS: Final = ("net", "late_us", "rise", "joins", "leaves", "unique_change", "estimated_change", "egress_bytes")


def audience(views: DataFrame, minutes: DataFrame, hours: Collection[str]) -> DataFrame:
    """One row for each stream and minute of the hours in which a view was there, came or went, or was sent bytes.

    Takes every view that was present in the hours, also those that began before, and the view minutes of the hours.
    A view without length is a join, a leave and a viewer of its minute, and not in the peak.
    """
    present = _presences(views)
    changes = _crowd_changes(present)
    for others in (_viewer_changes(present), _egress(minutes)):
        changes = changes.unionByName(others, allowMissingColumns=True)
    summed = changes.groupBy(*_STREAM, "minute_us").agg(
        *(F.coalesce(F.sum(each), F.lit(0)).alias(each) for each in _SUMS)
    )
    is_worth_a_row = (F.col("viewers_unique") + F.col("joins") + F.col("leaves") + F.col("egress_bytes")) > 0
    return (
        _with_quiet_minutes(_with_running_totals(summed), hours)
        .where(is_worth_a_row)
        .select(
            *_STREAM,
            F.timestamp_micros("minute_us").alias("minute"),
            "viewers_peak",
            (F.col("watched_us") / F.lit(MINUTE_US)).alias("viewers_avg"),
            "viewers_unique",
            "joins",
            "leaves",
            "watched_us",
            (F.col("watched_us") / F.lit(SECOND_US)).alias("watch_seconds"),
            "egress_bytes",
            (F.col("estimated_views") > 0).alias("is_estimated"),
        )
    )


def _presences(views: DataFrame) -> DataFrame:
    """One row for each view that was let in: from when until when it was there, and the minutes that touches."""
    started_at_us = F.unix_micros("started_at")
    left_at_us = F.unix_micros(F.coalesce("ended_at", "last_seen_at"))
    last_there_us = F.greatest(left_at_us - 1, started_at_us)
    return views.where(~F.col("is_failed_start")).select(
        *_STREAM,
        F.xxhash64("viewer_key").alias("viewer"),
        started_at_us.alias("started_at_us"),
        left_at_us.alias("left_at_us"),
        start_us(started_at_us, MINUTE_US).alias("first_minute_us"),
        start_us(last_there_us, MINUTE_US).alias("last_minute_us"),
        F.col("ended_at").isNotNull().cast("bigint").alias("leaves"),
        (F.col("is_estimated") & ~F.col("is_open")).cast("bigint").alias("estimated"),
    )


def _crowd_changes(present: DataFrame) -> DataFrame:
    """One row for each stream and minute with changes: their sum, and how far it rose above who was there before."""
    came = F.struct(
        F.col("started_at_us").alias("at_us"),
        F.lit(1).cast("bigint").alias("net"),
        F.lit(1).cast("bigint").alias("joins"),
        F.lit(0).cast("bigint").alias("leaves"),
    )
    went = F.struct(
        F.col("left_at_us").alias("at_us"),
        F.lit(-1).cast("bigint").alias("net"),
        F.lit(0).cast("bigint").alias("joins"),
        F.col("leaves"),
    )
    # Who comes and who goes in the same microsecond are one change, whichever server tells of them first.
    at_once = (
        present.select(*_STREAM, F.inline(F.array(came, went)))
        .groupBy(*_STREAM, "at_us")
        .agg(F.sum("net").alias("net"), F.sum("joins").alias("joins"), F.sum("leaves").alias("leaves"))
    )
    late_us = F.col("at_us") % F.lit(MINUTE_US)
    in_minute = Window.partitionBy(*_STREAM, "minute_us").orderBy("at_us")
    ordered = at_once.withColumn("minute_us", start_us(F.col("at_us"), MINUTE_US)).withColumn(
        "level", F.sum("net").over(in_minute)
    )
    # Who was there before counts towards the peak unless a change comes with the first microsecond.
    before = F.when(F.min(late_us) > 0, F.lit(0))
    return ordered.groupBy(*_STREAM, "minute_us").agg(
        F.sum("net").alias("net"),
        F.sum(F.col("net") * late_us).alias("late_us"),
        F.greatest(F.max("level"), before).alias("rise"),
        F.sum("joins").alias("joins"),
        F.sum("leaves").alias("leaves"),
    )


def _viewer_changes(present: DataFrame) -> DataFrame:
    """Up to three rows for each view: where it adds a different viewer, and where that viewer or an estimate ends."""
    earlier = (
        Window.partitionBy(*_STREAM, "viewer")
        .orderBy("first_minute_us", "last_minute_us")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    seen_until_us = F.max("last_minute_us").over(earlier) + F.lit(MINUTE_US)
    ends_us = F.col("last_minute_us") + F.lit(MINUTE_US)
    new_from_us = F.greatest("first_minute_us", "seen_until_us")
    adds = (new_from_us < ends_us).cast("bigint")
    none = F.lit(0).cast("bigint")

    def change(at_us: Column, unique: Column, estimated: Column) -> Column:
        return F.struct(at_us.alias("minute_us"), unique.alias("unique_change"), estimated.alias("estimated_change"))

    changes = F.array(
        change(new_from_us, adds, none),
        change(F.col("first_minute_us"), none, F.col("estimated")),
        change(ends_us, -adds, -F.col("estimated")),
    )
    is_change = (F.col("unique_change") != 0) | (F.col("estimated_change") != 0)
    return present.withColumn("seen_until_us", seen_until_us).select(*_STREAM, F.inline(changes)).where(is_change)


def _egress(minutes: DataFrame) -> DataFrame:
    return minutes.select(
        *_STREAM, F.unix_micros("minute").alias("minute_us"), F.col("sent_bytes").alias("egress_bytes")
    )


def _with_running_totals(summed: DataFrame) -> DataFrame:
    """The same rows, with who is there at the end of each, and when the next row is."""
    in_order = Window.partitionBy(*_STREAM).orderBy("minute_us")
    return summed.select(
        *_STREAM,
        "minute_us",
        F.lead("minute_us", 1).over(in_order).alias("next_minute_us"),
        F.sum("net").over(in_order).alias("viewers_at_end"),
        F.sum("unique_change").over(in_order).alias("viewers_unique"),
        F.sum("estimated_change").over(in_order).alias("estimated_views"),
        "net",
        "rise",
        "late_us",
        "joins",
        "leaves",
        "egress_bytes",
    )


def _with_quiet_minutes(told: DataFrame, hours: Collection[str]) -> DataFrame:
    """One row for each minute of the hours: minutes without a change have what the last change left behind."""
    first_us, until_us = hours_span(hours)
    from_us = F.greatest(F.col("minute_us"), F.lit(first_us))
    upto_us = F.least(F.coalesce("next_minute_us", F.col("minute_us") + MINUTE_US), F.lit(until_us)) - MINUTE_US
    each_us = F.sequence(from_us, upto_us, F.lit(MINUTE_US).cast("bigint"))
    is_told = F.col("each_us") == F.col("minute_us")
    at_end = F.col("viewers_at_end")

    def told_only(name: str) -> Column:
        return F.when(is_told, F.col(name)).otherwise(F.lit(0))

    return (
        told.where(from_us <= upto_us)
        .withColumn("each_us", F.explode(each_us))
        .where(within_hours(F.col("each_us"), hours))
        .select(
            *_STREAM,
            F.col("each_us").alias("minute_us"),
            F.when(is_told, at_end - F.col("net") + F.col("rise")).otherwise(at_end).alias("viewers_peak"),
            (at_end * F.lit(MINUTE_US) - told_only("late_us")).alias("watched_us"),
            "viewers_unique",
            "estimated_views",
            *(told_only(name).alias(name) for name in ("joins", "leaves", "egress_bytes")),
        )
    )
