"""Expressions that several transforms share: times, integer division, ids."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.pipeline.lake.hours import HOUR_US

VIEW: Final = ["boot_key", "view_seq"]
"""The numeric key of a view."""

VIEW_KEYS: Final = ["view_seq", "boot_key"]
"""The same for grouping and joining: Spark's sort compares an 8-byte prefix of the first column, so the column with
more values comes first."""

MINUTE_US: Final = 60_000_000


def at(time_us: Column | str) -> Column:
    """Microseconds since 1970 as a timestamp."""
    return F.timestamp_micros(time_us)


def micros_of(time: Column | str) -> Column:
    """A timestamp as microseconds since 1970."""
    return F.unix_micros(time)


def hour_of(time: Column | str) -> Column:
    """The hour of a time, as text like 2026-11-15T20; the session's time zone is UTC."""
    return F.date_format(time, "yyyy-MM-dd'T'HH")


def hour_number(time: str) -> Column:
    """The hour of a time as a number, hours since 1970: much cheaper than text over millions of rows."""
    return F.expr(f"unix_micros({time}) div {HOUR_US}")


def whole(dividend: Column, divisor: Column) -> Column:
    """Integer division; null where the divisor is 0."""
    return F.call_function("div", dividend, F.nullif(divisor, F.lit(0)))


def event_id(seq: Column | str) -> Column:
    """The event_id of the fact with that number, in a frame with server_id and boot_id."""
    return F.concat_ws("-", "server_id", "boot_id", seq)


def seq_of(name: Column | str) -> Column:
    """The number at the end of an event_id, unique within its boot."""
    return F.substring_index(name, "-", -1).cast("bigint")
