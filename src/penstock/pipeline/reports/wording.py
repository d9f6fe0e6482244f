"""Amounts and times in words, for people.

Owns how figures are spelled on the page and in the terminal. Decimal units, since bandwidth is sold in them; three
digits, since nobody acts on the fourth.
"""

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.errors import ConfigError

NOTHING: Final = "–"  # noqa: RUF001 - a dash on purpose
_PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E")


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its name, such as Europe/Berlin."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"--timezone: there is no zone {name!r}; names are like UTC or Europe/Berlin") from error


def clock(at: datetime | None, zone: ZoneInfo) -> str:
    return NOTHING if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M}"


def span(first_at: datetime, until: datetime, zone: ZoneInfo) -> str:
    """From and to, with the date once if it is the same."""
    end = until.astimezone(zone)
    is_one_day = first_at.astimezone(zone).date() == end.date()
    return (
        f"{clock(first_at, zone)} to {end:%H:%M}" if is_one_day else f"{clock(first_at, zone)} to {clock(until, zone)}"
    )


def amount(value: float | None, unit: str) -> str:
    """With a decimal prefix: 1.24 TB."""
    if value is None:
        return NOTHING
    divisor, prefixed = scale(value, unit)
    return f"{_three_digits(value / divisor)} {prefixed}".strip()


def scale(value: float, unit: str) -> tuple[int, str]:
    """What to divide by, and the unit with its prefix."""
    power = next((power for power in range(len(_PREFIXES)) if abs(value) < 999.5 * 1000**power), len(_PREFIXES) - 1)
    return 1000**power, f"{_PREFIXES[power]}{unit}"


def count(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.1f}"


def percent(ratio: float | None) -> str:
    if ratio is None:
        return NOTHING
    if ratio == 0:
        return "0 %"
    return "< 0.01 %" if ratio < 0.0001 else f"{ratio * 100:.3g} %"


def milliseconds(value: int | None) -> str:
    if value is None:
        return NOTHING
    return f"{value} ms" if value < 1000 else f"{_three_digits(value / 1000)} s"


def startup(value: int | None) -> str:
    """Milliseconds rounded down, of a time that is never 0."""
    return "< 1 ms" if value == 0 else milliseconds(value)


def duration(seconds: float | None) -> str:
    """In the two largest units: 2 h 05 min."""
    if seconds is None:
        return NOTHING
    if seconds == 0:
        return "0 s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400:,} d {whole % 86_400 // 3600:02} h"


def roughly(seconds: float) -> str:
    """In one unit and words, for sentences: 5 minutes."""
    if seconds < 60:
        return "less than a minute"
    size, unit = (seconds / 3600, "hour") if seconds >= 90 * 60 else (seconds / 60, "minute")
    return counted(round(size), unit)


def counted(number: int, name: str) -> str:
    """1 view, 2 views."""
    return f"{count(number)} {name}{'' if number == 1 else 's'}"


def hours(seconds: float) -> str:
    return f"{count(round(seconds / 3600, 1))} h" if seconds >= 36_000 else duration(seconds)


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _three_digits(value: float) -> str:
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}" if value != int(value) else f"{value:.0f}"
