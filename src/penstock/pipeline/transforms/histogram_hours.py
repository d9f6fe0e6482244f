"""rollup.histogram_hours: how startup, lag and round trip are spread, in counts from which percentiles are read.

Startup counts once for each view, in the hour in which it began. Lag counts once for each sample, and the round trip
once for each view and minute, as the mean of its samples, in the hour of the samples.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.histograms import BUCKETS, bucket_column
from penstock.pipeline.transforms.common import VIEW, VIEW_KEYS, whole
from penstock.pipeline.transforms.cuts import cut_keys, cut_names
from penstock.pipeline.transforms.times import HOUR_US

_STREAM: Final = ("app", "stream")
STARTUP: Final = "startup_us"
METRICS: Final = (STARTUP, "lag_ms", "rtt_us")
STARTUP_COLUMNS: Final = (*VIEW, *_STREAM, "client", "protocol", "server_id", "network", STARTUP)
"""What of views, beside when they began, the histograms of startup rest on."""
_SLOTS_PER_HOUR: Final = len(METRICS) * BUCKETS


def histogram_hours(views: DataFrame, minutes: DataFrame, lags: DataFrame) -> DataFrame:
    """One row for each stream, hour, cut, metric and bucket that has a value.

    Takes the views that began in the hours or have minutes in them, and those minutes and lags.
    """
    keyed = views.select(*VIEW, "started_at", "startup_us", cut_keys().alias("cut_keys"))
    counts = _startup_counts(keyed).unionByName(_hour_counts(keyed, minutes, lags))
    counted = (
        counts.select(F.explode("cut_keys").alias("cut_key"), "slot", "count")
        .groupBy("cut_key", "slot")
        .agg(F.sum("count").alias("count"))
    )
    per_hour = whole(F.col("slot"), F.lit(_SLOTS_PER_HOUR))
    metric = whole(F.col("slot") % F.lit(_SLOTS_PER_HOUR), F.lit(BUCKETS)).cast("int")
    return counted.join(cut_names(views), "cut_key").select(
        *_STREAM,
        F.timestamp_micros(per_hour * F.lit(HOUR_US)).alias("hour_at"),
        "dimension",
        "value",
        F.element_at(F.array(*(F.lit(each) for each in METRICS)), metric + 1).alias("metric"),
        (F.col("slot") % F.lit(BUCKETS)).cast("int").alias("bucket"),
        "count",
    )


def _slot(at: Column, metric: str, bucket: Column) -> Column:
    """Hour, metric and bucket as one number, which is quicker to group by than three columns with text among them."""
    hour = whole(F.unix_micros(at), F.lit(HOUR_US))
    return (hour * len(METRICS) + METRICS.index(metric)) * BUCKETS + bucket


def _startup_counts(views: DataFrame) -> DataFrame:
    bucket = bucket_column(F.col("startup_us"))
    return views.where(F.col("startup_us").isNotNull()).select(
        "cut_keys",
        _slot(F.col("started_at"), "startup_us", bucket).alias("slot"),
        F.lit(1).cast("bigint").alias("count"),
    )


def _hour_counts(views: DataFrame, minutes: DataFrame, lags: DataFrame) -> DataFrame:
    mean_rtt_us = whole(F.col("rtt_us_sum"), F.col("rtt_samples"))
    # Each row becomes one for every cut after the join; a view's minutes of an hour are mostly alike.
    round_trips = (
        minutes.where(F.col("rtt_samples") > 0)
        .groupBy(*VIEW_KEYS, _slot(F.col("minute"), "rtt_us", bucket_column(mean_rtt_us)).alias("slot"))
        .agg(F.count("*").alias("count"))
    )
    behind = lags.select(
        *VIEW, _slot(F.col("hour_at"), "lag_ms", F.col("bucket")).alias("slot"), F.col("samples").alias("count")
    )
    counts = round_trips.unionByName(behind)
    return counts.join(views.select(*VIEW, "cut_keys"), VIEW_KEYS).select("cut_keys", "slot", "count")
