"""rollup.stream_episodes: when samples of a stream were bad, hour by hour; what gold.incidents is made from.

An episode is a time in which the condition of a kind holds. Those of one stream and kind that touch are one run,
whichever server or publication they come from. Jumps of timestamps stay samples: how many come together is counted over
the ends of hours.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.lake.hours import HOUR_US
from penstock.pipeline.transforms.common import whole
from penstock.pipeline.transforms.gold.stream_health import (
    KEYFRAME_INTERVAL_MAX_MS,
    is_collapsed,
    is_drifted,
    is_skewed,
)
from penstock.pipeline.transforms.histograms import bucket_column, middle_column
from penstock.pipeline.transforms.times import SECOND_US, start_us

JUMPED: Final = "timestamp_jumps"
TOUCHING_US: Final = SECOND_US // 2
"""Episodes with a smaller gap are merged. Samples are about 1 s long, so one good sample still separates two."""
_STREAM: Final = ("app", "stream")


def stream_episodes(seconds: DataFrame, publications: DataFrame) -> DataFrame:
    """One row per hour, stream, kind and run of consecutive bad samples, however short; of jumps, per sample with some.

    Takes whole hours of seconds, and the publications that they belong to. `hour_us` is that of the seconds, which a
    row's start may lie before.
    """
    runs = joined(_bad_seconds(seconds, publications), "hour_us")
    return runs.unionByName(_jumped_seconds(seconds)).select(
        *_STREAM,
        "kind",
        F.timestamp_micros("started_at_us").alias("started_at"),
        F.timestamp_micros("ended_at_us").alias("ended_at"),
        "least",
        "most",
        "reference",
        "hour_us",
    )


def episode(kind: str, from_us: Column, upto_us: Column, figure: Column, reference: Column) -> Column:
    """An episode as a struct. Its evidence quotes the least and most of `figure`, and the most of `reference`."""
    return F.struct(
        F.lit(kind).alias("kind"),
        from_us.alias("started_at_us"),
        upto_us.alias("ended_at_us"),
        figure.cast("bigint").alias("least"),
        figure.cast("bigint").alias("most"),
        reference.cast("bigint").alias("reference"),
    )


def joined(episodes: DataFrame, *within: str) -> DataFrame:
    """Episodes of one stream and kind that touch, merged into one row (gaps and islands)."""
    keys = (*_STREAM, *within, "kind")
    in_order = Window.partitionBy(*keys).orderBy("started_at_us", "ended_at_us")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_apart = F.col("started_at_us") > F.max("ended_at_us").over(so_far) + TOUCHING_US
    return (
        episodes.withColumn("is_apart", F.coalesce(is_apart, F.lit(True)).cast("bigint"))
        .withColumn("island", F.sum("is_apart").over(in_order.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*keys, "island")
        .agg(
            F.min("started_at_us").alias("started_at_us"),
            F.max("ended_at_us").alias("ended_at_us"),
            F.min("least").alias("least"),
            F.max("most").alias("most"),
            F.max("reference").alias("reference"),
        )
        .drop("island")
    )


def _bad_seconds(seconds: DataFrame, publications: DataFrame) -> DataFrame:
    """Episodes of single samples: no data, a collapsed bitrate, few key frames, or audio, video and clock apart."""
    at_us = F.unix_micros("at")
    hourly = (*_STREAM, "hour_us")
    timed = seconds.select(
        *_STREAM,
        "publication_id",
        at_us.alias("at_us"),
        start_us(at_us, HOUR_US).alias("hour_us"),
        "interval_us",
        "bitrate_bps",
        "received_bytes",
        _has_far_keyframes().alias("is_far"),
        "keyframe_interval_ms",
        "av_skew_us",
        "drift_ms",
    )
    # How much drift is allowed grows with the age of the publication. Only rows over the smallest allowance need to
    # know that age, so only they are joined.
    is_stalled = F.col("received_bytes") == 0
    is_low = F.coalesce(is_collapsed(F.col("bitrate_bps"), F.col("median_bps")), F.lit(False))
    skewed = F.coalesce(is_skewed(F.col("av_skew_us")), F.lit(False))
    may_drift = F.coalesce(is_drifted(F.col("drift_ms"), F.lit(0)), F.lit(False))
    suspects = (
        timed.join(_hour_medians(timed), [*hourly], "left")
        .where(is_stalled | is_low | F.col("is_far") | skewed | may_drift)
        .join(publications.select("publication_id", "started_at"), "publication_id", "left")
    )
    published_us = F.col("at_us") - F.coalesce(F.unix_micros("started_at"), F.col("at_us"))
    drifted = F.coalesce(is_drifted(F.col("drift_ms"), published_us), F.lit(False))
    from_us = F.col("at_us") - F.col("interval_us")
    skew_ms = F.when(skewed, whole(F.abs("av_skew_us"), F.lit(1000)))
    drift_ms = F.when(drifted, F.abs("drift_ms"))
    none = F.lit(None)
    episodes = F.array(
        F.when(is_stalled, episode("ingest_stalled", from_us, F.col("at_us"), none, none)),
        F.when(is_low, episode("bitrate_collapse", from_us, F.col("at_us"), F.col("bitrate_bps"), F.col("median_bps"))),
        F.when(
            F.col("is_far"),
            episode("keyframe_interval", from_us, F.col("at_us"), F.col("keyframe_interval_ms"), none),
        ),
        F.when(skewed | drifted, episode("av_drift", from_us, F.col("at_us"), skew_ms, drift_ms)),
    )
    return suspects.select(*hourly, F.inline(F.array_compact(episodes)))


def _has_far_keyframes() -> Column:
    """Whether video came, and its key frames are too far apart, or there was no second one yet."""
    interval_ms = F.col("keyframe_interval_ms")
    is_far = interval_ms.isNull() | (interval_ms > KEYFRAME_INTERVAL_MAX_MS)
    # The row of an end never has an interval.
    return ~F.col("is_last") & (F.col("fps_milli") > 0) & is_far


def _jumped_seconds(seconds: DataFrame) -> DataFrame:
    """Samples in which timestamps jumped, each by itself."""
    at_us, none = F.unix_micros("at"), F.lit(None).cast("bigint")
    # Servers that have the stream may sample it at the same moment.
    return (
        seconds.where(~F.col("is_last") & (F.col("timestamp_jumps") > 0))
        .groupBy(
            *_STREAM,
            start_us(at_us, HOUR_US).alias("hour_us"),
            F.lit(JUMPED).alias("kind"),
            (at_us - F.col("interval_us")).alias("started_at_us"),
        )
        .agg(
            F.max(at_us).alias("ended_at_us"),
            F.first(none).alias("least"),
            F.first(none).alias("most"),
            F.sum("timestamp_jumps").alias("reference"),
        )
    )


def _hour_medians(timed: DataFrame) -> DataFrame:
    """One row per stream and hour: the median bitrate of samples with data, from a histogram."""
    hourly = (*_STREAM, "hour_us")
    counted = (
        timed.where(F.col("received_bytes") > 0)
        .groupBy(*hourly, bucket_column(F.col("bitrate_bps")).alias("bucket"))
        .agg(F.count("*").alias("count"))
    )
    spread = Window.partitionBy(*hourly)
    upto, total = F.sum("count").over(spread.orderBy("bucket")), F.sum("count").over(spread)
    return (
        counted.withColumn("is_upper_half", upto * 2 >= total)
        .where("is_upper_half")
        .groupBy(*hourly)
        .agg(middle_column(F.min("bucket")).alias("median_bps"))
    )
