"""rollup.view_lags: how far behind the samples of each view were, hour by hour, in counts.

Apart from the view minutes, since a list of lags among their figures would slow down the counting of all samples.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.histograms import bucket_column
from penstock.pipeline.transforms.common import VIEW, VIEW_KEYS, at
from penstock.pipeline.transforms.times import HOUR_US, start_us


def view_lags(samples: DataFrame) -> DataFrame:
    """One row for each view, hour and bucket. Samples without a place in the stream have no lag. Takes whole hours."""
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
