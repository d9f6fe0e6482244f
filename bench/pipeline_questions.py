"""Four questions to stored samples, each engine asked in the form that it answers quickest.

Owns the questions and both forms of each. Both read the same files of viewer samples, an hour each and sorted by view.
Spark groups by numbers first and looks up names when little is left; DuckDB keeps names beside the numbers, since text
of a dictionary costs it next to nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

GAP_US = 12_000_000
"""More than two intervals without a sample: the viewer was away."""
MINUTE_US = 60_000_000
VIEW = ["boot_key", "view_seq"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `spark` takes samples and views; `duckdb` is SQL over `samples`."""

    name: str
    spark: Callable[[DataFrame, DataFrame], DataFrame]
    duckdb: str


def _stretches(samples: DataFrame, views: DataFrame) -> DataFrame:
    """By stream: how many stretches without a gap views consist of, and how long those are."""
    gap_us = F.col("at_us") - F.lag("at_us").over(Window.partitionBy(*VIEW).orderBy("at_us"))
    is_new = F.col("gap_us").isNull() | (F.col("gap_us") > GAP_US)
    of_views = (
        samples.select(*VIEW, gap_us.alias("gap_us"))
        .groupBy(*VIEW)
        .agg(
            F.count_if(is_new).alias("stretches"), F.sum(F.when(~is_new, F.col("gap_us")).otherwise(0)).alias("seen_us")
        )
    )
    named = of_views.join(views.select(*VIEW, "app", "stream"), VIEW)
    return named.groupBy("app", "stream").agg(F.sum("stretches"), F.sum("seen_us"))


_STRETCHES_SQL = f"""
WITH gaps AS (
    SELECT app, stream, at_us - lag(at_us) OVER (PARTITION BY boot_key, view_seq ORDER BY at_us) AS gap_us FROM samples
)
SELECT app, stream, count(*) FILTER (gap_us IS NULL OR gap_us > {GAP_US}),
    sum(CASE WHEN gap_us <= {GAP_US} THEN gap_us ELSE 0 END)::BIGINT
FROM gaps GROUP BY ALL
"""


def _viewers(samples: DataFrame, _views: DataFrame) -> DataFrame:
    """By stream and minute: how many views have a sample in it."""
    minute = F.call_function("div", F.col("at_us"), F.lit(MINUTE_US)).alias("minute")
    there = samples.groupBy(*VIEW, "app", "stream", minute).agg(F.lit(1))
    return there.groupBy("app", "stream", "minute").agg(F.count("*"))


_VIEWERS_SQL = f"""
SELECT app, stream, minute, count(*) FROM (
    SELECT any_value(app) AS app, any_value(stream) AS stream, at_us // {MINUTE_US} AS minute
    FROM samples GROUP BY boot_key, view_seq, minute)
GROUP BY ALL
"""


def _percentiles(samples: DataFrame, _views: DataFrame) -> DataFrame:
    """By stream: percentiles of the lag by nearest rank, exact."""
    of_stream = Window.partitionBy("app", "stream")
    counts = samples.where("lag_ms IS NOT NULL").groupBy("app", "stream", "lag_ms").agg(F.count("*").alias("n"))
    ranked = counts.withColumn("upto", F.sum("n").over(of_stream.orderBy("lag_ms")))
    ranked = ranked.withColumn("total", F.sum("n").over(of_stream))

    def percentile(percent: int) -> Column:
        return F.min(F.when(F.col("upto") * 100 >= F.col("total") * percent, F.col("lag_ms")))

    return ranked.groupBy("app", "stream").agg(percentile(50), percentile(95), percentile(99))


_PERCENTILES_SQL = """
WITH counts AS (SELECT app, stream, lag_ms, count(*) AS n FROM samples WHERE lag_ms IS NOT NULL GROUP BY ALL),
ranked AS (
    SELECT app, stream, lag_ms, sum(n) OVER (PARTITION BY app, stream ORDER BY lag_ms) AS upto,
        sum(n) OVER (PARTITION BY app, stream) AS total FROM counts
)
SELECT app, stream, min(lag_ms) FILTER (upto * 100 >= total * 50), min(lag_ms) FILTER (upto * 100 >= total * 95),
    min(lag_ms) FILTER (upto * 100 >= total * 99)
FROM ranked GROUP BY ALL
"""


def _usage(samples: DataFrame, views: DataFrame) -> DataFrame:
    """By app and hour: bytes sent and time watched, as differences of the counters that samples carry."""
    ends = samples.groupBy(*VIEW, "hour").agg(F.max("sent_bytes").alias("sent"), F.max("watched_us").alias("watched"))
    in_order = Window.partitionBy(*VIEW).orderBy("hour")
    gained = ends.select(
        *VIEW,
        "hour",
        *((F.col(name) - F.coalesce(F.lag(name).over(in_order), F.lit(0))).alias(name) for name in ("sent", "watched")),
    )
    named = gained.join(views.select(*VIEW, "app"), VIEW)
    return named.groupBy("app", "hour").agg(F.sum("sent"), F.sum("watched"))


_USAGE_SQL = """
WITH ends AS (
    SELECT boot_key, view_seq, any_value(app) AS app, hour, max(sent_bytes) AS sent, max(watched_us) AS watched
    FROM samples GROUP BY boot_key, view_seq, hour
), gained AS (
    SELECT app, hour, sent - coalesce(lag(sent) OVER v, 0) AS sent,
        watched - coalesce(lag(watched) OVER v, 0) AS watched
    FROM ends WINDOW v AS (PARTITION BY boot_key, view_seq ORDER BY hour)
)
SELECT app, hour, sum(sent)::BIGINT, sum(watched)::BIGINT FROM gained GROUP BY ALL
"""

QUESTIONS = (
    Question("views by gap rule", _stretches, _STRETCHES_SQL),
    Question("viewers per minute", _viewers, _VIEWERS_SQL),
    Question("percentiles per stream", _percentiles, _PERCENTILES_SQL),
    Question("usage by app and hour", _usage, _USAGE_SQL),
)
