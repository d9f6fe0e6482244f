"""Small expressions that several transforms share: times, whole numbers, names of things."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

VIEW: Final = ["boot_key", "view_seq"]
"""The numeric name of a view."""

VIEW_KEYS: Final = ["view_seq", "boot_key"]
"""The same for grouping and joining: Spark sorts by a few bytes of the first column, and boots are few."""

MINUTE_US: Final = 60_000_000
_HOUR_US: Final = 60 * MINUTE_US


def at(time_us: Column | str) -> Column:
    """Microseconds since 1970 as a timestamp."""
    return F.timestamp_micros(time_us)


def micros_of(time: Column | str) -> Column:
    """A timestamp as microseconds since 1970."""
    return F.unix_micros(time)


def hour_of(time: Column | str) -> Column:
    """The partition that a time falls into, as in 2026-11-15T20; the session is in UTC."""
    return F.date_format(time, "yyyy-MM-dd'T'HH")


def hour_number(time: str) -> Column:
    """The same as a number, hours since 1970: much quicker to make for each of millions of rows."""
    return F.expr(f"unix_micros({time}) div {_HOUR_US}")


def whole(dividend: Column, divisor: Column) -> Column:
    """The quotient without its fraction; null where the divisor is 0."""
    return F.call_function("div", dividend, F.nullif(divisor, F.lit(0)))


def event_id(seq: Column | str) -> Column:
    """The name of the fact of that number, in a frame with its server and boot."""
    return F.concat_ws("-", "server_id", "boot_id", seq)


def seq_of(name: Column | str) -> Column:
    """The number at the end of an event_id, which is a short name within its boot."""
    return F.substring_index(name, "-", -1).cast("bigint")
