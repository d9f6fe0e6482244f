"""gold.incidents: what went wrong for how long, with the figures that show it.

An episode is a time in which the condition of a kind holds: a run of bad samples (`rollup.stream_episodes`), a minute,
five minutes. Those of one stream and kind that touch are merged, and are an incident if they last long enough. Only
episodes are sorted, and they are few.

    ingest_stalled     no bytes for at least 3 s
    bitrate_collapse   bitrate below 40 % of the stream's median of the hour for at least 10 s
    keyframe_interval  video whose key frames are over 5 s apart, or without a second one, for at least 10 s
    av_drift           audio and video over 200 ms apart, or media time over 1 s per 10 minutes off the clock, for 10 s
    timestamp_jumps    5 within a minute
    viewer_exodus      at least half of the viewers, and at least 5, leave within 2 minutes while the stream goes on
    reconnect_storm    5 publications within 5 minutes, or 20 joins in a minute and 3 joins per concurrent viewer; pulls
                       are not counted, as they begin and end with their viewers

The server finds those that are about what comes in while they last, by the same limits (`web/incidents`).
"""

from collections.abc import Collection
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.transforms.common import MINUTE_US, whole
from penstock.pipeline.transforms.rollup.stream_episodes import JUMPED, episode, joined
from penstock.pipeline.transforms.times import SECOND_US, start_us

STALL_MIN_US: Final = 3 * SECOND_US
COLLAPSE_MIN_US: Final = 10 * SECOND_US
KEYFRAMES_MIN_US: Final = 10 * SECOND_US
DRIFT_MIN_US: Final = 10 * SECOND_US
JUMPS: Final = 5
JUMPS_WITHIN_US: Final = MINUTE_US
EXODUS_MIN_VIEWERS: Final = 5
STORM_PUBLICATIONS: Final = 5
STORM_WITHIN_US: Final = 5 * MINUTE_US
STORM_JOINS: Final = 20
STORM_JOINS_PER_VIEWER: Final = 3
_MIN_US: Final = {
    "ingest_stalled": STALL_MIN_US,
    "bitrate_collapse": COLLAPSE_MIN_US,
    "keyframe_interval": KEYFRAMES_MIN_US,
    "av_drift": DRIFT_MIN_US,
}
_STREAM: Final = ("app", "stream")


def incidents(episodes: DataFrame, audience: DataFrame, publications: DataFrame, days: Collection[str]) -> DataFrame:
    """One row per incident that started on one of the days, which are named as in 2026-11-15.

    Takes the rows of these days and of the days next to them, so that an incident over midnight is complete.
    """
    timed = _timed(episodes)
    episodes = (
        timed.where(F.col("kind") != JUMPED)
        .unionByName(_many_jumps(timed.where(F.col("kind") == JUMPED)))
        .unionByName(_falls(audience, publications))
        .unionByName(_reconnects(publications))
        .unionByName(_join_storms(audience))
    )
    is_of_days = F.to_date(F.timestamp_micros("started_at_us")).cast("string").isin(*days)
    found = joined(episodes).where(_is_long_enough() & is_of_days)
    return _with_viewers(found, audience).select(
        *_STREAM,
        "kind",
        F.timestamp_micros("started_at_us").alias("started_at"),
        F.timestamp_micros("ended_at_us").alias("ended_at"),
        _evidence().alias("evidence"),
        F.col("viewers").alias("affected_viewers"),
    )


def _many_jumps(jumped: DataFrame) -> DataFrame:
    """Samples by which there were many jumps within a minute, each from the first of those jumps on."""
    ended_us = F.col("ended_at_us")
    lately = Window.partitionBy(*_STREAM).orderBy(ended_us).rangeBetween(-JUMPS_WITHIN_US, 0)
    counted = jumped.select(
        *_STREAM,
        F.min("started_at_us").over(lately).alias("first_us"),
        "ended_at_us",
        F.sum("reference").over(lately).alias("jumps"),
    )
    return (
        counted.where(F.col("jumps") >= JUMPS)
        .select(*_STREAM, episode(JUMPED, F.col("first_us"), ended_us, F.lit(None), F.col("jumps")).alias("episode"))
        .select(*_STREAM, "episode.*")
    )


def _falls(audience: DataFrame, publications: DataFrame) -> DataFrame:
    """Minutes with fewer viewers than the minute before, and at most half of the peak of the two minutes before."""
    # Each minute is copied to the two after it, instead of a lag over rows: a minute without viewers has no row.
    later = F.sequence(F.lit(0), F.lit(2))
    peaks = (
        audience.select(
            *_STREAM, F.unix_micros("minute").alias("of_us"), "viewers_peak", F.explode(later).alias("later")
        )
        .groupBy(*_STREAM, (F.col("of_us") + F.col("later") * MINUTE_US).alias("minute_us"))
        .agg(*(_peak_if(F.col("later") == each).alias(name) for each, name in enumerate(("now", "before", "earlier"))))
    )
    most = F.greatest("before", "earlier")
    is_fall = (
        (F.col("now") * 2 <= most) & (most - F.col("now") >= EXODUS_MIN_VIEWERS) & (F.col("now") < F.col("before"))
    )
    high_us = F.col("minute_us") - F.when(F.col("before") == most, F.lit(MINUTE_US)).otherwise(F.lit(2 * MINUTE_US))
    upto_us = F.col("minute_us") + MINUTE_US
    going_on = publications.select(
        *_STREAM,
        F.unix_micros("started_at").alias("published_us"),
        F.unix_micros(F.coalesce("ended_at", "last_seen_at")).alias("unpublished_us"),
    )
    # One publication has to span all three minutes; otherwise viewers left because the stream ended.
    spans = (F.col("published_us") <= F.col("minute_us") - 2 * MINUTE_US) & (F.col("unpublished_us") >= upto_us)
    return (
        peaks.where(is_fall)
        .join(going_on, [*_STREAM])
        .where(spans)
        .select(*_STREAM, episode("viewer_exodus", high_us, upto_us, F.col("now"), most).alias("episode"))
        .select(*_STREAM, "episode.*")
    )


def _peak_if(condition: Column) -> Column:
    return F.coalesce(F.max(F.when(condition, F.col("viewers_peak"))), F.lit(0))


def _reconnects(publications: DataFrame) -> DataFrame:
    """Publications that are at least the fifth of their stream within five minutes."""
    started_us = F.col("started_us")
    lately = Window.partitionBy(*_STREAM).orderBy("started_us").rangeBetween(-STORM_WITHIN_US, 0)
    is_pulled = F.coalesce("publishing_type", F.lit("")) == "pull"
    counted = (
        publications.where(~is_pulled)
        .select(*_STREAM, F.unix_micros("started_at").alias("started_us"))
        .select(
            *_STREAM,
            "started_us",
            F.min("started_us").over(lately).alias("first_us"),
            F.count("*").over(lately).alias("publications"),
        )
    )
    return (
        counted.where(F.col("publications") >= STORM_PUBLICATIONS)
        .select(
            *_STREAM,
            episode("reconnect_storm", F.col("first_us"), started_us, F.lit(None), F.col("publications")).alias(
                "episode"
            ),
        )
        .select(*_STREAM, "episode.*")
    )


def _join_storms(audience: DataFrame) -> DataFrame:
    """Minutes with many more joins than concurrent viewers: clients that connect again and again."""
    joins, minute_us = F.col("joins"), F.unix_micros("minute")
    is_storm = (joins >= STORM_JOINS) & (joins >= F.col("viewers_peak") * STORM_JOINS_PER_VIEWER)
    return (
        audience.where(is_storm)
        .select(
            *_STREAM, episode("reconnect_storm", minute_us, minute_us + MINUTE_US, joins, F.lit(None)).alias("episode")
        )
        .select(*_STREAM, "episode.*")
    )


def _timed(episodes: DataFrame) -> DataFrame:
    """Rows of rollup.stream_episodes with times as microseconds."""
    return episodes.select(
        *_STREAM,
        "kind",
        F.unix_micros("started_at").alias("started_at_us"),
        F.unix_micros("ended_at").alias("ended_at_us"),
        "least",
        "most",
        "reference",
    )


def _is_long_enough() -> Column:
    lasted_us = F.col("ended_at_us") - F.col("started_at_us")
    too_short = [(F.col("kind") == kind) & (lasted_us < min_us) for kind, min_us in _MIN_US.items()]
    # A bitrate of 0 throughout is an ingest_stalled, and reported as that.
    is_stall = (F.col("kind") == "bitrate_collapse") & (F.col("most") == 0)
    return ~reduce(Column.__or__, too_short, is_stall)


def _with_viewers(found: DataFrame, audience: DataFrame) -> DataFrame:
    """Adds the most concurrent viewers, over all servers, of the minutes that the incident touches."""
    last_us = F.greatest(F.col("ended_at_us") - 1, F.col("started_at_us"))
    touched_us = F.sequence(
        start_us(F.col("started_at_us"), MINUTE_US), start_us(last_us, MINUTE_US), F.lit(MINUTE_US).cast("bigint")
    )
    there = audience.select(*_STREAM, F.unix_micros("minute").alias("minute_us"), "viewers_peak")
    return (
        found.withColumn("minute_us", F.explode(touched_us))
        .join(there, [*_STREAM, "minute_us"], "left")
        .groupBy(*(name for name in found.columns))
        .agg(F.coalesce(F.max("viewers_peak"), F.lit(0)).alias("viewers"))
    )


def _evidence() -> Column:
    least, most, reference = F.col("least"), F.col("most"), F.col("reference")
    lasted_us = F.col("ended_at_us") - F.col("started_at_us")
    seconds = F.format_string(
        "%d.%d s", whole(lasted_us, F.lit(SECOND_US)), whole(lasted_us % SECOND_US, F.lit(SECOND_US // 10))
    )
    skew = F.when(most.isNotNull(), F.format_string("audio and video up to %d ms apart", most))
    drift = F.when(reference.isNotNull(), F.format_string("media time up to %d ms off the clock", reference))
    far = F.format_string(
        "key frames up to %d.%d s apart for ", whole(most, F.lit(1000)), whole(most % 1000, F.lit(100))
    )
    publications = F.when(reference.isNotNull(), F.format_string("%d publications within 5 minutes", reference))
    joins = F.when(most.isNotNull(), F.format_string("%d joins within a minute", most))
    words = {
        "ingest_stalled": F.concat(F.lit("nothing came for "), seconds),
        "bitrate_collapse": F.concat(
            F.format_string(
                "bitrate down to %d kbit/s, %d %% of the hour's median of %d kbit/s, for ",
                whole(least, F.lit(1000)),
                whole(least * 100, reference),
                whole(reference, F.lit(1000)),
            ),
            seconds,
        ),
        "keyframe_interval": F.concat(F.when(most.isNull(), F.lit("no second key frame for ")).otherwise(far), seconds),
        "av_drift": F.concat(F.concat_ws(" and ", skew, drift), F.lit(" for "), seconds),
        JUMPED: F.format_string("%d timestamp jumps within a minute", reference),
        "viewer_exodus": F.format_string("viewers fell from %d to %d", reference, least),
        "reconnect_storm": F.concat_ws(" and ", publications, joins),
    }
    text = F.lit(None).cast("string")
    for kind, each in words.items():
        text = F.when(F.col("kind") == kind, each).otherwise(text)
    return text
