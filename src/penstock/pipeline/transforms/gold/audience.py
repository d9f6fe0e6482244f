"""gold.audience: how many watched a stream in each minute, over all servers.

A view is present from its start to its end; while it is open, to its newest fact. Views are never exploded into their
minutes. Instead, a start is a change of +1 viewer, an end one of -1, and everything follows from changes:

- viewers at the end of a minute: the running sum of the changes;
- watch time in a minute: 60 s for each of those viewers, corrected by how late in the minute each change came;
- peak: the highest running sum within the minute, so only the changes of one minute are sorted;
- unique viewers: overlapping views of one viewer_key are merged by minute first, and then are changes as well.
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.transforms.common import MINUTE_US, VIEW
from penstock.pipeline.transforms.times import SECOND_US, hours_span, start_us, within_hours

STREAM: Final = ("app", "stream")
AUDIENCE: Final = (
    "minute",
    "viewers_peak",
    "viewers_avg",
    "viewers_unique",
    "joins",
    "leaves",
    "watched_us",
    "watch_seconds",
    "egress_bytes",
    "is_estimated",
)
"""What is told of a stream and minute."""
_SUMS: Final = ("net", "late_us", "rise", "joins", "leaves", "unique_change", "estimated_change", "egress_bytes")


def audience(views: DataFrame, minutes: DataFrame, hours: Collection[str]) -> DataFrame:
    """One row per stream and minute of the hours with a viewer, a join, a leave or bytes sent.

    Takes every view that was present in the hours, also if it started before them, and the view minutes of the hours.
    A view of zero length counts as a join, a leave and a unique viewer of its minute, but not in the peak.
    """
    return audience_by(STREAM, presences(views), egress(minutes), hours)


def audience_by(keys: tuple[str, ...], present: DataFrame, sent: DataFrame, hours: Collection[str]) -> DataFrame:
    """The same for each value of the keys, which `present` and `sent` have: `presences` and `egress`, or parts of them.

    Rows have the keys and `AUDIENCE`.
    """
    changes = _crowd_changes(present, keys)
    for others in (_viewer_changes(present, keys), sent.select(*keys, "minute_us", "egress_bytes")):
        changes = changes.unionByName(others, allowMissingColumns=True)
    summed = changes.groupBy(*keys, "minute_us").agg(*(F.coalesce(F.sum(each), F.lit(0)).alias(each) for each in _SUMS))
    is_worth_a_row = (F.col("viewers_unique") + F.col("joins") + F.col("leaves") + F.col("egress_bytes")) > 0
    figures = {
        "minute": F.timestamp_micros("minute_us"),
        "viewers_avg": F.col("watched_us") / F.lit(MINUTE_US),
        "watch_seconds": F.col("watched_us") / F.lit(SECOND_US),
        "is_estimated": F.col("estimated_views") > 0,
    }
    return (
        _with_quiet_minutes(_with_running_totals(summed, keys), keys, hours)
        .where(is_worth_a_row)
        .select(*keys, *(figures.get(name, F.col(name)).alias(name) for name in AUDIENCE))
    )


def presences(views: DataFrame) -> DataFrame:
    """One row per view that started: its start and end, and the first and last minute that it touches."""
    started_at_us = F.unix_micros("started_at")
    left_at_us = F.unix_micros(F.coalesce("ended_at", "last_seen_at"))
    last_there_us = F.greatest(left_at_us - 1, started_at_us)
    return views.where(~F.col("is_failed_start")).select(
        *STREAM,
        *VIEW,
        F.xxhash64("viewer_key").alias("viewer"),
        started_at_us.alias("started_at_us"),
        left_at_us.alias("left_at_us"),
        start_us(started_at_us, MINUTE_US).alias("first_minute_us"),
        start_us(last_there_us, MINUTE_US).alias("last_minute_us"),
        F.lit(1).cast("bigint").alias("joins"),
        F.col("ended_at").isNotNull().cast("bigint").alias("leaves"),
        (F.col("is_estimated") & ~F.col("is_open")).cast("bigint").alias("estimated"),
    )


def _crowd_changes(present: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """One row per stream and minute with changes: their sum, and the highest rise above the minute's first level."""
    came = F.struct(
        F.col("started_at_us").alias("at_us"),
        F.lit(1).cast("bigint").alias("net"),
        F.col("joins"),
        F.lit(0).cast("bigint").alias("leaves"),
    )
    went = F.struct(
        F.col("left_at_us").alias("at_us"),
        F.lit(-1).cast("bigint").alias("net"),
        F.lit(0).cast("bigint").alias("joins"),
        F.col("leaves"),
    )
    # Joins and leaves of the same microsecond are one change, so that the order of servers does not matter.
    at_once = (
        present.select(*keys, F.inline(F.array(came, went)))
        .groupBy(*keys, "at_us")
        .agg(F.sum("net").alias("net"), F.sum("joins").alias("joins"), F.sum("leaves").alias("leaves"))
    )
    late_us = F.col("at_us") % F.lit(MINUTE_US)
    in_minute = Window.partitionBy(*keys, "minute_us").orderBy("at_us")
    ordered = at_once.withColumn("minute_us", start_us(F.col("at_us"), MINUTE_US)).withColumn(
        "level", F.sum("net").over(in_minute)
    )
    # The level from before the minute counts towards its peak, unless a change falls on its first microsecond.
    before = F.when(F.min(late_us) > 0, F.lit(0))
    return ordered.groupBy(*keys, "minute_us").agg(
        F.sum("net").alias("net"),
        F.sum(F.col("net") * late_us).alias("late_us"),
        F.greatest(F.max("level"), before).alias("rise"),
        F.sum("joins").alias("joins"),
        F.sum("leaves").alias("leaves"),
    )


def _viewer_changes(present: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Up to three rows per view: the minutes at which the unique viewers or the estimated views change."""
    earlier = (
        Window.partitionBy(*keys, "viewer")
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
    return present.withColumn("seen_until_us", seen_until_us).select(*keys, F.inline(changes)).where(is_change)


def egress(minutes: DataFrame) -> DataFrame:
    """One row for each view and minute: what it was sent."""
    return minutes.select(
        *STREAM, *VIEW, F.unix_micros("minute").alias("minute_us"), F.col("sent_bytes").alias("egress_bytes")
    )


def _with_running_totals(summed: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Adds the running sums at the end of each minute, and the minute of the stream's next row."""
    in_order = Window.partitionBy(*keys).orderBy("minute_us")
    return summed.select(
        *keys,
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


def _with_quiet_minutes(changed: DataFrame, keys: tuple[str, ...], hours: Collection[str]) -> DataFrame:
    """One row per minute of the hours: a minute without a change repeats the level that the last change left."""
    first_us, until_us = hours_span(hours)
    from_us = F.greatest(F.col("minute_us"), F.lit(first_us))
    upto_us = F.least(F.coalesce("next_minute_us", F.col("minute_us") + MINUTE_US), F.lit(until_us)) - MINUTE_US
    each_us = F.sequence(from_us, upto_us, F.lit(MINUTE_US).cast("bigint"))
    has_change = F.col("each_us") == F.col("minute_us")
    at_end = F.col("viewers_at_end")

    def if_changed(name: str) -> Column:
        return F.when(has_change, F.col(name)).otherwise(F.lit(0))

    return (
        changed.where(from_us <= upto_us)
        .withColumn("each_us", F.explode(each_us))
        .where(within_hours(F.col("each_us"), hours))
        .select(
            *keys,
            F.col("each_us").alias("minute_us"),
            F.when(has_change, at_end - F.col("net") + F.col("rise")).otherwise(at_end).alias("viewers_peak"),
            (at_end * F.lit(MINUTE_US) - if_changed("late_us")).alias("watched_us"),
            "viewers_unique",
            "estimated_views",
            *(if_changed(name).alias(name) for name in ("joins", "leaves", "egress_bytes")),
        )
    )
