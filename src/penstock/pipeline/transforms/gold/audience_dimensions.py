"""gold.audience_dimensions: the audience of each minute, broken down by configured dimensions and by subject.

Counted as gold.audience is, for each value by itself, so that joins, leaves, watch time and bytes of all values of a
dimension add up to those of the audience. Peaks and different viewers do not add up: values have their peaks at
different times, and a viewer may come back with another value.

Which values have rows of their own is decided for each stream, hour and dimension: those of the most views that were
there. So that it holds for the whole hour, and depends on nothing outside of it, views are divided at full hours.
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.lake.dimensions import UNKNOWN, Dimensions
from penstock.pipeline.lake.hours import HOUR_US
from penstock.pipeline.transforms.common import MINUTE_US, VIEW
from penstock.pipeline.transforms.dimensions import TOLD_BY, most_frequent, named_values
from penstock.pipeline.transforms.gold.audience import AUDIENCE, STREAM, audience_by, egress, presences
from penstock.pipeline.transforms.times import start_us, within_hours

_KEYS: Final = (*STREAM, "dimension", "value", "hour_us")
_WITHIN: Final = (*STREAM, "hour_us", "dimension")
_LAST_MINUTE_US: Final = HOUR_US - MINUTE_US


def audience_dimensions(
    views: DataFrame, minutes: DataFrame, hours: Collection[str], dimensions: Dimensions
) -> DataFrame:
    """One row for each stream, minute of the hours, dimension and value where the audience would have one.

    Takes what the audience takes, and a configuration that names a dimension.
    """
    present = _by_value(_in_hours(views, hours), dimensions)
    return audience_by(_KEYS, present, _sent(minutes, present, dimensions), hours).select(
        *STREAM, "minute", "dimension", "value", *AUDIENCE[1:]
    )


def _in_hours(views: DataFrame, hours: Collection[str]) -> DataFrame:
    """One row for each view that was let in, and hour: the part of its presence that lies in the hour."""
    values = views.select(*VIEW, *TOLD_BY)
    first_us = start_us(F.col("started_at_us"), HOUR_US)
    # Who leaves at a full hour leaves in the hour that begins then.
    last_us = F.greatest(start_us(F.col("left_at_us"), HOUR_US), first_us)
    until_us = F.col("hour_us") + HOUR_US
    is_first = F.col("hour_us") == first_us
    is_last = F.col("hour_us") == last_us
    return (
        presences(views)
        .join(values, VIEW)
        .withColumn("hour_us", F.explode(F.sequence(first_us, last_us, F.lit(HOUR_US).cast("bigint"))))
        .where(within_hours(F.col("hour_us"), hours))
        .withColumns(
            {
                "joins": F.when(is_first, F.col("joins")).otherwise(F.lit(0)),
                "leaves": F.when(is_last, F.col("leaves")).otherwise(F.lit(0)),
                "started_at_us": F.greatest("started_at_us", "hour_us"),
                "left_at_us": F.when(is_last, F.col("left_at_us")).otherwise(until_us),
                "first_minute_us": F.greatest("first_minute_us", "hour_us"),
                "last_minute_us": F.least("last_minute_us", F.col("hour_us") + _LAST_MINUTE_US),
            }
        )
    )


def _by_value(present: DataFrame, dimensions: Dimensions) -> DataFrame:
    """One row for each of these and dimension, with the value under which it counts."""
    each = present.select("*", F.inline(named_values(dimensions))).drop(*TOLD_BY)
    counted = each.groupBy(*_WITHIN, "value").agg(F.count("*").alias("views"))
    shown = most_frequent(counted, _WITHIN, "views", dimensions.max_values).drop("views")
    return each.join(shown, [*_WITHIN, "value"]).drop("value").withColumnRenamed("shown", "value")


def _sent(minutes: DataFrame, present: DataFrame, dimensions: Dimensions) -> DataFrame:
    """What each view was sent in each minute, for each dimension, with the value under which the view counts."""
    each = (
        egress(minutes)
        .withColumn("hour_us", start_us(F.col("minute_us"), HOUR_US))
        .withColumn("dimension", F.explode(F.array(*(F.lit(name) for name in dimensions.named))))
    )
    of_views = present.select(*VIEW, "hour_us", "dimension", "value")
    joined = each.join(of_views, [*VIEW, "hour_us", "dimension"], "left")
    return joined.withColumn("value", F.coalesce("value", F.lit(UNKNOWN)))
