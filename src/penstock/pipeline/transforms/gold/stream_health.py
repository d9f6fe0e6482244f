"""gold.stream_health: what a stream's publisher sent in each minute, with a verdict in words.

A verdict is `healthy`, or the list of what is wrong, joined by semicolons. The limits below for skew, drift and bitrate
are those of incidents too, which add a minimum duration.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.lake.hours import HOUR_US
from penstock.pipeline.transforms.common import MINUTE_US, whole
from penstock.pipeline.transforms.times import SECOND_US, start_us

STALL_MIN_US: Final = 3 * SECOND_US
KEYFRAME_INTERVAL_MAX_MS: Final = 5_000
"""A viewer who joins either waits for a key frame or starts that far behind the live edge."""
SKEW_MAX_US: Final = 200_000
"""About where people begin to notice that lips and sound are apart."""
DRIFT_MAX_MS: Final = 1_000
DRIFT_PER_MS: Final = 600_000
"""One second of drift is allowed per ten minutes of publishing, and one second at the start."""
COLLAPSE_PERCENT: Final = 40
_STREAM: Final = ("app", "stream")
_DRIFT_BITS: Final = 37
_DRIFT_HALF: Final = 1 << (_DRIFT_BITS - 1)


def stream_health(seconds: DataFrame, publications: DataFrame) -> DataFrame:
    """One row per stream and minute with a sample. Takes whole hours, and the publications in them."""
    per_publication = _minutes_of_publications(seconds, publications)
    summed = per_publication.groupBy(*_STREAM, "minute_us").agg(
        F.sum("sampled_us").alias("sampled_us"),
        F.sum("stalled_us").alias("stalled_us"),
        F.sum("ingress_bytes").alias("ingress_bytes"),
        F.sum("video_frames").alias("video_frames"),
        F.sum("timestamp_jumps").alias("timestamp_jumps"),
        F.max("keyframe_interval_ms").alias("keyframe_interval_ms"),
        F.max("skew_us_max").alias("skew_us_max"),
        F.min("skew_us_min").alias("skew_us_min"),
        F.max("last_drift").alias("last_drift"),
        F.bool_or("is_drifting").alias("is_drifting"),
        F.max("viewers").alias("viewers"),
        F.count("*").alias("publications"),
        F.bool_or("is_estimated").alias("is_estimated"),
    )
    told = (
        summed.withColumn("bitrate_bps", F.coalesce(_per_second(F.col("ingress_bytes") * 8), F.lit(0)))
        .withColumn("av_skew_us", _farther(F.col("skew_us_max"), F.col("skew_us_min")))
        .withColumn("drift_ms", F.col("last_drift") % F.lit(1 << _DRIFT_BITS) - _DRIFT_HALF)
    )
    return _with_hour_median(told).select(
        *_STREAM,
        F.timestamp_micros("minute_us").alias("minute"),
        "bitrate_bps",
        F.coalesce(
            F.try_multiply("video_frames", F.lit(SECOND_US)) / F.nullif("sampled_us", F.lit(0)), F.lit(0.0)
        ).alias("fps"),
        "keyframe_interval_ms",
        (F.col("av_skew_us") / 1000).alias("av_skew_ms"),
        "drift_ms",
        "timestamp_jumps",
        "ingress_bytes",
        "video_frames",
        "sampled_us",
        "stalled_us",
        "publications",
        "viewers",
        _verdict().alias("verdict"),
        "is_estimated",
    )


def is_skewed(skew_us: Column) -> Column:
    """Whether audio and video are too far apart."""
    return F.abs(skew_us) > SKEW_MAX_US


def is_drifted(drift_ms: Column, published_us: Column) -> Column:
    """Whether media time is too far from the clock for a publication that has lasted `published_us`."""
    allowed_ms = F.greatest(whole(published_us * DRIFT_MAX_MS, F.lit(DRIFT_PER_MS * 1000)), F.lit(DRIFT_MAX_MS))
    return F.abs(drift_ms) > allowed_ms


def is_collapsed(bitrate_bps: Column, median_bps: Column) -> Column:
    """Whether a bitrate is far below the stream's median."""
    return bitrate_bps * 100 < median_bps * COLLAPSE_PERCENT


def _minutes_of_publications(seconds: DataFrame, publications: DataFrame) -> DataFrame:
    """One row per publication and minute."""
    at_us = F.unix_micros("at")
    # The last drift of the minute without sorting: time in the high bits, drift in the low ones, then the maximum.
    drift = F.greatest(F.least(F.col("drift_ms"), F.lit(_DRIFT_HALF - 1)), F.lit(-_DRIFT_HALF))
    packed_drift = (at_us % F.lit(MINUTE_US)) * F.lit(1 << _DRIFT_BITS) + drift + _DRIFT_HALF
    timed_drift = F.when(F.col("drift_ms").isNotNull(), packed_drift)
    minutes = seconds.groupBy(*_STREAM, "publication_id", start_us(at_us, MINUTE_US).alias("minute_us")).agg(
        F.sum("interval_us").alias("sampled_us"),
        F.sum(F.when(F.col("received_bytes") == 0, F.col("interval_us")).otherwise(0)).alias("stalled_us"),
        F.sum("received_bytes").alias("ingress_bytes"),
        F.sum("video_frames").alias("video_frames"),
        F.sum("timestamp_jumps").alias("timestamp_jumps"),
        F.max("keyframe_interval_ms").alias("keyframe_interval_ms"),
        F.max("av_skew_us").alias("skew_us_max"),
        F.min("av_skew_us").alias("skew_us_min"),
        F.max(timed_drift).alias("last_drift"),
        F.max(F.abs("drift_ms")).alias("drift_ms_most"),
        F.max("viewers").alias("viewers"),
    )
    known = publications.select(
        "publication_id",
        F.unix_micros("started_at").alias("started_at_us"),
        (F.col("is_estimated") & ~F.col("is_open")).alias("is_estimated"),
    )
    published_us = F.col("minute_us") + MINUTE_US - F.coalesce("started_at_us", "minute_us")
    return (
        minutes.join(known, "publication_id", "left")
        .withColumn("is_drifting", F.coalesce(is_drifted(F.col("drift_ms_most"), published_us), F.lit(False)))
        .withColumn("is_estimated", F.coalesce("is_estimated", F.lit(False)))
    )


def _with_hour_median(told: DataFrame) -> DataFrame:
    """Adds the median bitrate, by nearest rank, of the hour's minutes with data."""
    has_data = F.col("ingress_bytes") > 0
    hour = Window.partitionBy(*_STREAM, start_us(F.col("minute_us"), HOUR_US), has_data)
    rank = F.row_number().over(hour.orderBy("bitrate_bps", "minute_us"))
    middle = whole(F.count("*").over(hour) + 1, F.lit(2))
    return (
        told.withColumn("rank", rank)
        .withColumn("middle", middle)
        .withColumn("median_bps", F.max(F.when(F.col("rank") == F.col("middle"), F.col("bitrate_bps"))).over(hour))
    )


def _verdict() -> Column:
    collapsed = is_collapsed(F.col("bitrate_bps"), F.col("median_bps")) & (F.col("ingress_bytes") > 0)
    jumps = F.col("timestamp_jumps")
    side = F.when(F.col("drift_ms") < 0, F.lit("behind")).otherwise(F.lit("ahead of"))
    wrong = F.concat_ws(
        "; ",
        _says(F.col("stalled_us") >= STALL_MIN_US, "no data for %d s", whole(F.col("stalled_us"), F.lit(SECOND_US))),
        _says(
            collapsed,
            "bitrate fell to %d %% of the hour's median",
            whole(F.col("bitrate_bps") * 100, F.col("median_bps")),
        ),
        _says(
            F.col("keyframe_interval_ms") > KEYFRAME_INTERVAL_MAX_MS,
            "key frames %d.%d s apart",
            whole(F.col("keyframe_interval_ms"), F.lit(1000)),
            whole(F.col("keyframe_interval_ms") % 1000, F.lit(100)),
        ),
        _says(is_skewed(F.col("av_skew_us")), "audio and video %d ms apart", whole(F.abs("av_skew_us"), F.lit(1000))),
        _says(F.col("is_drifting"), "media time %d ms %s the clock", F.abs("drift_ms"), side),
        _says(jumps == 1, "1 timestamp jump"),
        _says(jumps > 1, "%d timestamp jumps", jumps),
    )
    return F.when(wrong == "", F.lit("healthy")).otherwise(wrong)


def _says(condition: Column, words: str, *figures: Column) -> Column:
    """The words if the condition holds, else null, which concat_ws leaves out."""
    return F.when(condition, F.format_string(words, *figures) if figures else F.lit(words))


def _per_second(amount: Column) -> Column:
    return whole(F.try_multiply(amount, F.lit(SECOND_US)), F.col("sampled_us"))


def _farther(high: Column, low: Column) -> Column:
    """The one farther from 0, with its sign; `high` if they are equally far."""
    return F.when(F.abs(low) > F.abs(high), low).otherwise(high)
