"""Options of sources: text that users write, read as values, or refused with the name of the option."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from penstock.errors import ConfigError
from penstock.pipeline.lake.hours import us_of

_TRUTHS: Final = {"true": True, "false": False}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000}


def truth_of(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """An option that is true or false."""
    given = options.get(name, str(default)).lower()
    if given not in _TRUTHS:
        raise ConfigError(f"option {name} is {given!r}, neither true nor false")
    return _TRUTHS[given]


def count_of(options: Mapping[str, str], name: str, *, default: int) -> int:
    """An option that is a whole number, not negative."""
    given = options.get(name, str(default))
    if not given.isdecimal():
        raise ConfigError(f"option {name} is {given!r}, not a whole number")
    return int(given)


def duration_ms_of(options: Mapping[str, str], name: str, *, default: str) -> int:
    """An option that is a duration, written as 500ms, 2s or 1m."""
    given = options.get(name, default)
    match = _DURATION.fullmatch(given)
    duration_ms = round(float(match[1]) * _UNITS_MS[match[2]]) if match else 0
    if duration_ms < 1:
        raise ConfigError(f"option {name} is {given!r}, not a duration such as 500ms, 2s or 1m")
    return duration_ms


def time_us_of(options: Mapping[str, str], name: str) -> int | None:
    """An option that is a time in ISO 8601, in microseconds since 1970; None if it is not given."""
    given = options.get(name)
    if given is None:
        return None
    try:
        time = datetime.fromisoformat(given)
    except ValueError:
        raise ConfigError(f"option {name} is {given!r}, not a time such as 2026-11-15T20:00:00Z") from None
    return us_of(time if time.tzinfo else time.replace(tzinfo=UTC))
