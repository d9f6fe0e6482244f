"""rollup.view_lags: per view and hour, a histogram of how far behind the live edge its samples were.

A table of its own, because a list of lags in rollup.view_minutes would slow down the aggregation of all samples.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.lake.hours import HOUR_US
from penstock.pipeline.transforms.common import VIEW, VIEW_KEYS, at
from penstock.pipeline.transforms.histograms import bucket_column
from penstock.pipeline.transforms.times import start_us


def view_lags(samples: DataFrame) -> DataFrame:
    """One row per view, hour and bucket. Samples without lag_ms are left out. Takes whole hours."""
    counted = (
        samples.where(F.col("lag_ms").isNotNull())
        .groupBy(
            *VIEW_KEYS,
            start_us(F.col("at_us"), HOUR_US).alias("hour_us"),
            bucket_column(F.col("lag_ms")).alias("bucket"),
        )
        .agg(F.count("*").alias("samples"))
    )
    return counted.select(*VIEW, at("hour_us").alias("hour_at"), "bucket", "samples")
