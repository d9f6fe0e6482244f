"""gold.view_quality: the quality of the views that started in an hour, and a score from 0 to 100.

The score starts at 100 and loses up to these points, in proportion:

    30 for failed starts and exits before the first picture: all 30 at 20 % of the plays
    20 for startup: none up to a p95 of 1 s, all 20 from 10 s
    35 for stalls: all 35 at 10 % of the watch time
    15 for drops: all 15 at 10 % of the bytes

What players told has columns of its own and no part in the score, since not all of them tell anything.

Percentiles are by nearest rank, and read from `rollup.histogram_hours`. Of each dimension the values that most views of
the stream and hour began with have rows of their own, and the others one together.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.lake.dimensions import Dimensions
from penstock.pipeline.lake.hours import HOUR_US
from penstock.pipeline.transforms.common import whole
from penstock.pipeline.transforms.dimensions import VALUE, most_frequent, value_keys, value_names
from penstock.pipeline.transforms.histograms import middle_column
from penstock.pipeline.transforms.times import start_us

_SUMS: Final = (
    "views",
    "failed_starts",
    "exits_before_picture",
    "watched_us",
    "stalled_us",
    "bytes_sent",
    "skipped_bytes",
    "player_views",
    "player_startup_ms",
    "player_startups",
    "player_played_ms",
    "player_stalls",
    "player_stalled_ms",
    "player_latency_ms",
    "player_latencies",
    "player_dropped_frames",
)
_COUNTED: Final = ("metric", "bucket", "count")
FAILED_WEIGHT: Final = 30
STARTUP_WEIGHT: Final = 20
STALL_WEIGHT: Final = 35
DROP_WEIGHT: Final = 15
FAILED_WORST_MILLI: Final = 200
STALL_WORST_MILLI: Final = 100
DROP_WORST_MILLI: Final = 100
STARTUP_BEST_MS: Final = 1_000
STARTUP_WORST_MS: Final = 10_000


def view_quality(views: DataFrame, histograms: DataFrame, dimensions: Dimensions) -> DataFrame:
    """One row for each stream, hour and value of a dimension in which a view began or failed to.

    Takes the views that began in the hours and the histograms of the same hours.
    """
    sums = _sums(views, dimensions)
    shown_keys = sums.select("value_key", "hour_us", _shown_key())
    summed = _shown_together(sums).join(_percentiles(histograms, shown_keys), ["shown_key", "hour_us"], "left")
    skipped, sent, stood_ms = F.col("skipped_bytes"), F.col("bytes_sent"), F.col("player_stalled_ms")
    return summed.select(
        "app",
        "stream",
        F.timestamp_micros("hour_us").alias("hour_at"),
        "dimension",
        "value",
        "views",
        "failed_starts",
        "exits_before_picture",
        "startup_ms_p50",
        "startup_ms_p95",
        "startup_ms_p99",
        "lag_ms_p50",
        "lag_ms_p95",
        "watched_us",
        "stalled_us",
        _share(F.col("stalled_us"), F.col("watched_us")).alias("stall_ratio"),
        "bytes_sent",
        "skipped_bytes",
        _share(skipped, sent + skipped).alias("drop_rate"),
        score().alias("score"),
        "player_views",
        whole(F.col("player_startup_ms"), F.col("player_startups")).alias("player_startup_ms"),
        "player_played_ms",
        "player_stalls",
        "player_stalled_ms",
        (stood_ms / F.nullif(F.col("player_played_ms") + stood_ms, F.lit(0))).alias("player_stall_ratio"),
        whole(F.col("player_latency_ms"), F.col("player_latencies")).alias("player_latency_ms"),
        "player_dropped_frames",
    )


def score() -> Column:
    """The score of a row, to a tenth of a point, in integers up to the last division."""
    asked = F.col("views") + F.col("failed_starts")
    unlucky = F.col("failed_starts") + F.col("exits_before_picture")
    bytes_due = F.col("bytes_sent") + F.col("skipped_bytes")
    waited_ms = F.greatest(F.coalesce("startup_ms_p95", F.lit(0)) - STARTUP_BEST_MS, F.lit(0))
    lost_milli = (
        FAILED_WEIGHT * _loss_milli(unlucky, asked, FAILED_WORST_MILLI)
        + STARTUP_WEIGHT * _loss_milli(waited_ms, F.lit(STARTUP_WORST_MS - STARTUP_BEST_MS), 1000)
        + STALL_WEIGHT * _loss_milli(F.col("stalled_us"), F.col("watched_us"), STALL_WORST_MILLI)
        + DROP_WEIGHT * _loss_milli(F.col("skipped_bytes"), bytes_due, DROP_WORST_MILLI)
    )
    return whole(F.lit(100_000) - lost_milli, F.lit(100)) / F.lit(10)


def _loss_milli(part: Column, of: Column, worst_milli: int) -> Column:
    """The share of a weight that is lost, in thousandths: 1000 at `worst_milli` of `of`, 0 where `of` is 0."""
    # As decimals: a million times the watch time of a large audience is beyond 64 bits.
    millionths = whole(part.cast("decimal(20,0)") * F.lit(1_000_000), of.cast("decimal(20,0)"))
    lost = F.coalesce(whole(millionths, F.lit(worst_milli)), F.lit(0))
    return F.least(lost, F.lit(1000))


def _share(part: Column, of: Column) -> Column:
    return F.when(of > 0, part / of).otherwise(F.lit(0.0))


def _sums(views: DataFrame, dimensions: Dimensions) -> DataFrame:
    """One row for each stream, hour and value: its sums, and the value under which it is shown."""
    one_if = {
        "views": ~F.col("is_failed_start"),
        "failed_starts": F.col("is_failed_start"),
        "exits_before_picture": F.col("is_exit_before_picture") & ~F.col("is_failed_start"),
    }
    # Null where no player told anything, so that their sums are too.
    told = {"player_views": "beacons", "player_startups": "startup_ms", "player_latencies": "latency_ms"}
    amounts = {name: condition.cast("bigint") for name, condition in one_if.items()} | {
        name: F.when(F.col(f"player_{each}").isNotNull(), F.lit(1).cast("bigint")) for name, each in told.items()
    }
    summed = (
        views.select(
            start_us(F.unix_micros("started_at"), HOUR_US).alias("hour_us"),
            *(amounts.get(name, F.col(name)).alias(name) for name in _SUMS),
            F.explode(value_keys(dimensions)).alias("value_key"),
        )
        .groupBy("value_key", "hour_us")
        .agg(*(F.sum(name).alias(name) for name in _SUMS))
        .join(value_names(views, dimensions), "value_key")
        .withColumn("starts", F.col("views") + F.col("failed_starts"))
    )
    return most_frequent(summed, ("app", "stream", "hour_us", "dimension"), "starts", dimensions.max_values)


def _shown_key() -> Column:
    return F.xxhash64("app", "stream", "dimension", "shown").alias("shown_key")


def _shown_together(sums: DataFrame) -> DataFrame:
    return (
        sums.groupBy("app", "stream", "dimension", "shown", "hour_us")
        .agg(*(F.sum(name).alias(name) for name in _SUMS))
        .select("*", _shown_key(), F.col("shown").alias("value"))
    )


def _percentiles(histograms: DataFrame, shown_keys: DataFrame) -> DataFrame:
    """One row for each value that is shown, by its number, and hour: percentiles of startup and lag."""
    spread = Window.partitionBy("shown_key", "hour_us", "metric")
    upto = F.sum("count").over(spread.orderBy("bucket"))
    counted = (
        histograms.where(F.col("metric").isin("startup_us", "lag_ms"))
        .select(F.xxhash64(*VALUE).alias("value_key"), F.unix_micros("hour_at").alias("hour_us"), *_COUNTED)
        .join(shown_keys, ["value_key", "hour_us"])
        .groupBy("shown_key", "hour_us", "metric", "bucket")
        .agg(F.sum("count").alias("count"))
        .withColumn("upto", upto)
        .withColumn("total", F.sum("count").over(spread))
    )

    def percentile(metric: str, percent: int) -> Column:
        is_reached = F.col("upto") * 100 >= F.col("total") * percent
        return middle_column(F.min(F.when((F.col("metric") == metric) & is_reached, F.col("bucket"))))

    def in_ms(time_us: Column) -> Column:
        return whole(time_us + 500, F.lit(1000))

    return counted.groupBy("shown_key", "hour_us").agg(
        *(in_ms(percentile("startup_us", each)).alias(f"startup_ms_p{each}") for each in (50, 95, 99)),
        *(percentile("lag_ms", each).alias(f"lag_ms_p{each}") for each in (50, 95)),
    )
