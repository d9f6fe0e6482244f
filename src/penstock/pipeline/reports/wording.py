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


def amount(value: float | None, unit: str) -> str:
    """With a decimal prefix: 1.24 TB."""
    if value is None:
        return NOTHING
    size, prefix = float(value), _PREFIXES[0]
    for prefix in _PREFIXES:
        if abs(size) < 999.5 or prefix == _PREFIXES[-1]:
            break
        size /= 1000
    return f"{_three_digits(size)} {prefix}{unit}".strip()


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


def duration(seconds: float | None) -> str:
    """In the two largest units: 2 h 05 min."""
    if seconds is None:
        return NOTHING
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


def hours(seconds: float) -> str:
    return f"{count(round(seconds / 3600, 1))} h" if seconds >= 36_000 else duration(seconds)


def printable(text: str) -> str:
    """What a peer chose, so that it does not speak to the terminal."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _three_digits(value: float) -> str:
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}" if value != int(value) else f"{value:.0f}"
