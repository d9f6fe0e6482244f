"""gold.usage_dimensions: usage of a UTC day, broken down by configured dimensions and by subject.

Amounts of all values of a dimension add up to those of gold.usage. What is sent counts for the values of the viewers,
what is received for those of the publishers. What a lost server had sent beyond the samples of its viewers is known of
all of them together, and counts as `unknown`. What is `other` in an hour of the audience stays so; of the rest, the
values with the most watch time have rows of their own.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.lake.dimensions import UNKNOWN, Dimensions
from penstock.pipeline.transforms.common import MINUTE_US
from penstock.pipeline.transforms.dimensions import TOLD_BY, most_frequent, named_values

_STREAM: Final = ("app", "stream")
_DAY: Final = (*_STREAM, "day", "dimension")
_AMOUNTS: Final = ("ingress_bytes", "egress_bytes", "watched_us")


def usage_dimensions(
    audience: DataFrame, seconds: DataFrame, publications: DataFrame, unreported: DataFrame, dimensions: Dimensions
) -> DataFrame:
    """One row for each stream, day, dimension and value with a publisher or a viewer.

    Takes whole days of gold.audience_dimensions and silver.stream_seconds, the publications that are in them, what
    usage takes of lost servers, and a configuration that names a dimension.
    """
    parts = (
        _sent(audience),
        _sent_unreported(unreported, audience, dimensions),
        _received(seconds, publications, dimensions),
    )
    summed = _summed(reduce(DataFrame.unionByName, parts))
    # Bytes decide where nobody watched: publishers have values too.
    weighed = summed.withColumn("weight", F.struct("watched_us", "ingress_bytes"))
    shown = most_frequent(weighed, _DAY, "weight", dimensions.max_values)
    return _summed(shown.drop("value").withColumnRenamed("shown", "value")).select(
        *_DAY,
        "value",
        "ingress_bytes",
        "egress_bytes",
        (F.col("watched_us") / F.lit(MINUTE_US)).alias("viewer_minutes"),
        "watched_us",
        "is_estimated",
    )


def _summed(rows: DataFrame) -> DataFrame:
    return rows.groupBy(*_DAY, "value").agg(
        *(F.sum(name).alias(name) for name in _AMOUNTS), F.bool_or("is_estimated").alias("is_estimated")
    )


def _sent(audience: DataFrame) -> DataFrame:
    return audience.select(
        *_STREAM,
        F.to_date("minute").alias("day"),
        "dimension",
        "value",
        *_amounts(egress_bytes=F.col("egress_bytes"), watched_us=F.col("watched_us")),
        "is_estimated",
    )


def _received(seconds: DataFrame, publications: DataFrame, dimensions: Dimensions) -> DataFrame:
    by_publication = seconds.groupBy(*_STREAM, F.to_date("at").alias("day"), "publication_id").agg(
        F.sum("received_bytes").alias("received_bytes")
    )
    known = publications.select(
        "publication_id", *TOLD_BY, (F.col("is_estimated") & ~F.col("is_open")).alias("is_lost")
    )
    return by_publication.join(known, "publication_id", "left").select(
        *_STREAM,
        "day",
        F.inline(named_values(dimensions)),
        *_amounts(ingress_bytes=F.col("received_bytes")),
        F.coalesce("is_lost", F.lit(False)).alias("is_estimated"),
    )


def _sent_unreported(unreported: DataFrame, audience: DataFrame, dimensions: Dimensions) -> DataFrame:
    """Of the minutes that the audience has: the rest is of other days."""
    return unreported.join(audience.select(*_STREAM, "minute"), [*_STREAM, "minute"], "left_semi").select(
        *_STREAM,
        F.to_date("minute").alias("day"),
        F.explode(F.array(*(F.lit(name) for name in dimensions.named))).alias("dimension"),
        F.lit(UNKNOWN).alias("value"),
        *_amounts(egress_bytes=F.col("unreported_bytes"), watched_us=F.col("unreported_us")),
        F.lit(True).alias("is_estimated"),
    )


def _amounts(**given: Column) -> list[Column]:
    return [given.get(name, F.lit(0).cast("bigint")).alias(name) for name in _AMOUNTS]
