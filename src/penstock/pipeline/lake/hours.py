"""Hours and days as the lake's partitions spell them, 2026-11-15T20 and 2026-11-15, and times as microseconds.

All in UTC. Hours and days are spelled so that their order as text is their order in time.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

HOUR_US: Final = 3_600_000_000
_FORMAT: Final = "%Y-%m-%dT%H"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def utc_of_us(at_us: int) -> datetime:
    """Microseconds since 1970 as a time."""
    return _EPOCH + timedelta(microseconds=at_us)


def us_of(at: datetime) -> int:
    """A time, of any zone, as microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def hour_of_us(at_us: int) -> str:
    """The hour that a time lies in."""
    return datetime.fromtimestamp(at_us // HOUR_US * 3600, UTC).strftime(_FORMAT)


def us_of_hour(hour: str) -> int:
    """When an hour begins."""
    return us_of(datetime.strptime(hour, _FORMAT).replace(tzinfo=UTC))


def shifted(hour: str, by: int) -> str:
    """The hour that many hours later; earlier if negative."""
    return (datetime.strptime(hour, _FORMAT).replace(tzinfo=UTC) + timedelta(hours=by)).strftime(_FORMAT)


def day_of(hour: str) -> str:
    """The day that an hour belongs to."""
    return hour.partition("T")[0]


def days_of(hours: Iterable[str]) -> frozenset[str]:
    """The days that these hours belong to."""
    return frozenset(map(day_of, hours))


def shifted_day(day: str, by: int) -> str:
    """The day that many days later; earlier if negative."""
    return day_of(shifted(f"{day}T00", 24 * by))


def hours_of_day(day: str) -> list[str]:
    """All 24."""
    return [f"{day}T{number:02d}" for number in range(24)]


def hours_between(first: str, last: str) -> list[str]:
    """Every hour from the first to the last one, both included."""
    count = (us_of_hour(last) - us_of_hour(first)) // HOUR_US
    return [shifted(first, number) for number in range(count + 1)]


def runs_of(hours: Collection[str], known: Collection[str], longest: int) -> Iterator[list[str]]:
    """These hours in order, cut where a known hour that is not one of them lies between, and after so many."""
    run: list[str] = []
    between = sorted(set(known) - set(hours))
    for hour in sorted(hours):
        if run and (len(run) >= longest or any(run[-1] < other < hour for other in between)):
            yield run
            run = []
        run.append(hour)
    if run:
        yield run
