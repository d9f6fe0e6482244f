"""silver.stream_seconds: what a publication sent, second by second.

A stream_sample has figures of its interval, and counters since the start. Amounts are differences of counters, so they
add up to what the server counted even if a sample is lost. publish_stopped gives the last row of a publication: what
came after its last sample.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.transforms.common import at, event_id, seq_of, whole

_PUBLICATION: Final = ["boot_key", "publication_seq"]
_COUNTERS: Final = ("received_bytes", "video_frames", "audio_frames", "keyframes", "timestamp_jumps")


def stream_seconds(samples: DataFrame, stopped: DataFrame, carry: DataFrame) -> DataFrame:
    """One row per stream_sample and publish_stopped of the hours; `carry` is `stream_carry_of` the hours before."""
    reported = _sampled(samples).unionByName(_ended(stopped)).withColumn("is_carried", F.lit(False))
    carried = carry.withColumn("is_carried", F.lit(True))
    in_order = Window.partitionBy(*_PUBLICATION).orderBy("seq")
    since_before_us = F.col("at_us") - F.lag("at_us").over(in_order)
    before = {name: F.coalesce(F.lag(name).over(in_order), F.lit(0)) for name in _COUNTERS}
    amounts = [(F.col(name) - before[name]).alias(f"{name}_new") for name in _COUNTERS]
    interval_us = F.coalesce("interval_us", since_before_us, "duration_us").alias("of_interval_us")
    return (
        reported.unionByName(carried, allowMissingColumns=True)
        .select("*", *amounts, interval_us)
        .where(~F.col("is_carried"))
        .select(
            event_id("seq").alias("event_id"),
            "server_id",
            "boot_id",
            event_id("publication_seq").alias("publication_id"),
            "app",
            "stream",
            at("at_us").alias("at"),
            F.col("of_interval_us").alias("interval_us"),
            "viewers",
            F.coalesce("bitrate_bps", _per_time("received_bytes_new", 8 * 1_000_000)).alias("bitrate_bps"),
            *(F.col(f"{name}_new").alias(name) for name in _COUNTERS),
            F.coalesce("fps_milli", _per_time("video_frames_new", 1000 * 1_000_000)).alias("fps_milli"),
            "keyframe_interval_ms",
            "av_skew_us",
            "drift_ms",
            "is_last",
        )
    )


def stream_carry_of(samples: DataFrame) -> DataFrame:
    """One row per publication: its counters at the last of the stream_sample facts given."""
    return samples.groupBy("boot_key", seq_of("publication_id").alias("publication_seq")).agg(
        F.max("seq").alias("seq"), F.max("at_us").alias("at_us"), *(F.max(name).alias(name) for name in _COUNTERS)
    )


def _sampled(samples: DataFrame) -> DataFrame:
    # The only two fractions in facts. Rounded here, so that all later sums are of integers and exact.
    return _facts(
        samples,
        "viewers",
        "interval_us",
        "bitrate_bps",
        F.round(F.col("fps") * 1000).cast("bigint").alias("fps_milli"),
        "keyframe_interval_ms",
        F.round(F.col("av_skew_ms") * 1000).cast("bigint").alias("av_skew_us"),
        (F.col("media_ms") - F.col("wall_ms")).alias("drift_ms"),
        _none("duration_us"),
        F.lit(False).alias("is_last"),
    )


def _ended(stopped: DataFrame) -> DataFrame:
    """publish_stopped as a row: no figures of an interval, and no viewers."""
    unknown = ("interval_us", "bitrate_bps", "fps_milli", "keyframe_interval_ms", "av_skew_us", "drift_ms")
    return _facts(
        stopped,
        F.lit(0).cast("bigint").alias("viewers"),
        *(_none(name) for name in unknown),
        "duration_us",
        F.lit(True).alias("is_last"),
    )


def _facts(facts: DataFrame, *figures: Column | str) -> DataFrame:
    names = ("boot_key", "seq", "server_id", "boot_id", "app", "stream", "at_us")
    return facts.select(*names, seq_of("publication_id").alias("publication_seq"), *_COUNTERS, *figures)


def _none(name: str) -> Column:
    return F.lit(None).cast("bigint").alias(name)


def _per_time(amount: str, scale: int) -> Column:
    """An amount per second of the interval, times a scale; 0 if the interval is empty, or the amount absurd."""
    return F.coalesce(whole(F.try_multiply(amount, F.lit(scale)), F.col("of_interval_us")), F.lit(0))
