"""Minutes and hours of a time, for the tables that count by them.

Times are microseconds since 1970; a minute or an hour is named by its start.
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.pipeline.lake.hours import HOUR_US, us_of_hour

SECOND_US: Final = 1_000_000


def start_us(at_us: Column, unit_us: int) -> Column:
    """Start of the minute or hour (`unit_us`) that a time lies in."""
    return at_us - at_us % F.lit(unit_us)


def hours_span(hours: Collection[str]) -> tuple[int, int]:
    """Start of the first hour and end of the last one."""
    return us_of_hour(min(hours)), us_of_hour(max(hours)) + HOUR_US


def within_hours(at_us: Column, hours: Collection[str]) -> Column:
    """Whether a time lies in one of the hours."""
    first_us, until_us = hours_span(hours)
    is_within = (at_us >= F.lit(first_us)) & (at_us < F.lit(until_us))
    # Mostly the hours are a whole day without holes, for which the two comparisons suffice.
    if until_us - first_us == len(set(hours)) * HOUR_US:
        return is_within
    return is_within & start_us(at_us, HOUR_US).isin([us_of_hour(hour) for hour in hours])
