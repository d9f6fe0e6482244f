"""Minutes and hours of a time, for the tables that count by them.

Times are microseconds since 1970; a minute or an hour is named by its start.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.pipeline.transforms.common import MINUTE_US

SECOND_US: Final = 1_000_000
HOUR_US: Final = 60 * MINUTE_US


def start_us(at_us: Column, unit_us: int) -> Column:
    """Start of the minute or hour (`unit_us`) that a time lies in."""
    return at_us - at_us % F.lit(unit_us)


def hour_us(hour: str) -> int:
    """Start of an hour named as in 2026-11-15T20."""
    return int(datetime.strptime(hour, "%Y-%m-%dT%H").replace(tzinfo=UTC).timestamp()) * SECOND_US


def hours_span(hours: Collection[str]) -> tuple[int, int]:
    """Start of the first hour and end of the last one."""
    return hour_us(min(hours)), hour_us(max(hours)) + HOUR_US


def within_hours(at_us: Column, hours: Collection[str]) -> Column:
    """Whether a time lies in one of the hours."""
    first_us, until_us = hours_span(hours)
    is_within = (at_us >= F.lit(first_us)) & (at_us < F.lit(until_us))
    # Mostly the hours are a whole day without holes, for which the two comparisons suffice.
    if until_us - first_us == len(set(hours)) * HOUR_US:
        return is_within
    return is_within & start_us(at_us, HOUR_US).isin([hour_us(hour) for hour in hours])
