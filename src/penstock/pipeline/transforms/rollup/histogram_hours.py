"""rollup.histogram_hours: histograms of startup, lag and round-trip time, from which percentiles are read.

Startup counts once per view, in the hour in which the view started. Lag counts once per sample. Round-trip time counts
once per view and minute, as the mean of the minute's samples. Every value of a dimension
has rows of its own here, as it has in silver.views; gold bounds their number.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.lake.dimensions import Dimensions
from penstock.pipeline.lake.hours import HOUR_US
from penstock.pipeline.transforms.common import VIEW, VIEW_KEYS, whole
from penstock.pipeline.transforms.dimensions import value_keys, value_names
from penstock.pipeline.transforms.histograms import BUCKETS, bucket_column

_STREAM: Final = ("app", "stream")
STARTUP: Final = "startup_us"
METRICS: Final = (STARTUP, "lag_ms", "rtt_us")
_SLOTS_PER_HOUR: Final = len(METRICS) * BUCKETS


def histogram_hours(views: DataFrame, minutes: DataFrame, lags: DataFrame, dimensions: Dimensions) -> DataFrame:
    """One row for each stream, hour, value of a dimension, metric and bucket that has a count.

    Takes the views that began in the hours or have minutes in them, and those minutes and lags.
    """
    keyed = views.select(*VIEW, "started_at", "startup_us", value_keys(dimensions).alias("value_keys"))
    counts = _startup_counts(keyed).unionByName(_hour_counts(keyed, minutes, lags))
    counted = (
        counts.select(F.explode("value_keys").alias("value_key"), "slot", "count")
        .groupBy("value_key", "slot")
        .agg(F.sum("count").alias("count"))
    )
    per_hour = whole(F.col("slot"), F.lit(_SLOTS_PER_HOUR))
    metric = whole(F.col("slot") % F.lit(_SLOTS_PER_HOUR), F.lit(BUCKETS)).cast("int")
    return counted.join(value_names(views, dimensions), "value_key").select(
        *_STREAM,
        F.timestamp_micros(per_hour * F.lit(HOUR_US)).alias("hour_at"),
        "dimension",
        "value",
        F.element_at(F.array(*(F.lit(each) for each in METRICS)), metric + 1).alias("metric"),
        (F.col("slot") % F.lit(BUCKETS)).cast("int").alias("bucket"),
        "count",
    )


def _slot(at: Column, metric: str, bucket: Column) -> Column:
    """Hour, metric and bucket as one number: cheaper to group by than three columns, one of them text."""
    hour = whole(F.unix_micros(at), F.lit(HOUR_US))
    return (hour * len(METRICS) + METRICS.index(metric)) * BUCKETS + bucket


def _startup_counts(views: DataFrame) -> DataFrame:
    bucket = bucket_column(F.col("startup_us"))
    return views.where(F.col("startup_us").isNotNull()).select(
        "value_keys",
        _slot(F.col("started_at"), "startup_us", bucket).alias("slot"),
        F.lit(1).cast("bigint").alias("count"),
    )


def _hour_counts(views: DataFrame, minutes: DataFrame, lags: DataFrame) -> DataFrame:
    mean_rtt_us = whole(F.col("rtt_us_sum"), F.col("rtt_samples"))
    # Each row becomes one for every dimension after the join; a view's minutes of an hour are mostly alike.
    round_trips = (
        minutes.where(F.col("rtt_samples") > 0)
        .groupBy(*VIEW_KEYS, _slot(F.col("minute"), "rtt_us", bucket_column(mean_rtt_us)).alias("slot"))
        .agg(F.count("*").alias("count"))
    )
    behind = lags.select(
        *VIEW, _slot(F.col("hour_at"), "lag_ms", F.col("bucket")).alias("slot"), F.col("samples").alias("count")
    )
    counts = round_trips.unionByName(behind)
    return counts.join(views.select(*VIEW, "value_keys"), VIEW_KEYS).select("value_keys", "slot", "count")
