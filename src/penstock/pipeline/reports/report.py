"""What a report says, as plain values: the same for the page, for JSON and for the files of a live page.

Owns the shape. Times are in UTC, whatever zone a page is shown in; amounts are in the units of their names. Curves are
columns over one axis of times, so that a page stays small.
"""

import dataclasses
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures that come first."""

    streams: int
    views: int
    failed_starts: int
    watched_us: int
    busiest_viewers: int
    """Concurrent viewers in the busiest minute: the peaks of all streams in that minute, summed."""
    busiest_at: datetime | None
    ingress_bytes: int
    egress_bytes: int
    incidents: int
    recordings: int
    recorded_ms: int
    recorded_bytes: int
    is_estimated: bool
    """Whether a view or publication counted here has no reported end."""


@dataclass(frozen=True, slots=True)
class StreamCurve:
    """Viewers of one stream along the axis; of all others together if it has no name."""

    app: str | None
    stream: str | None
    viewers_avg: tuple[float, ...]
    viewers_peak: tuple[int, ...]
    """Most concurrent viewers in a minute of each step; of the others, of all of them together."""


@dataclass(frozen=True, slots=True)
class Audience:
    step_minutes: int
    at: tuple[datetime, ...]
    streams: tuple[StreamCurve, ...]
    """Streams with the most watch time first, then all others as one."""


@dataclass(frozen=True, slots=True)
class Quality:
    """How well views went: of a stream, of one value of a dimension, or of one hour of all views."""

    views: int
    failed_starts: int
    exits_before_picture: int
    startup_ms_p50: int | None
    startup_ms_p95: int | None
    startup_ms_p99: int | None
    lag_ms_p95: int | None
    stall_ratio: float
    drop_rate: float
    score: float | None
    """Mean of the scores of its hours, weighted by views; None: there was no view."""


@dataclass(frozen=True, slots=True)
class StreamQuality:
    app: str
    stream: str
    quality: Quality


@dataclass(frozen=True, slots=True)
class ValueQuality:
    dimension: str
    value: str
    quality: Quality


@dataclass(frozen=True, slots=True)
class HourQuality:
    at: datetime
    quality: Quality


@dataclass(frozen=True, slots=True)
class QualityPart:
    all: Quality
    streams: tuple[StreamQuality, ...]
    dimensions: tuple[ValueQuality, ...]
    hours: tuple[HourQuality, ...]


@dataclass(frozen=True, slots=True)
class StreamHealth:
    """One stream along the axis; None where it was not published."""

    app: str
    stream: str
    bitrate_bps: tuple[int | None, ...]
    verdict: tuple[str | None, ...]
    """Of the worst minute of each step."""
    minutes: int
    healthy_minutes: int


@dataclass(frozen=True, slots=True)
class Incident:
    app: str
    stream: str
    kind: str
    started_at: datetime
    ended_at: datetime
    evidence: str
    affected_viewers: int


@dataclass(frozen=True, slots=True)
class Health:
    step_minutes: int
    at: tuple[datetime, ...]
    streams: tuple[StreamHealth, ...]
    """Streams with the most unhealthy minutes first."""
    streams_left_out: int
    incidents: tuple[Incident, ...]
    """The newest first."""
    incidents_left_out: int


@dataclass(frozen=True, slots=True)
class StreamUsage:
    app: str
    stream: str
    days: int
    ingress_bytes: int
    egress_bytes: int
    viewer_minutes: float
    egress_bps_p95: int
    """Of the day in which it was highest."""
    is_estimated: bool


@dataclass(frozen=True, slots=True)
class DayUsage:
    day: date
    app: str
    ingress_bytes: int
    egress_bytes: int
    viewer_minutes: float


@dataclass(frozen=True, slots=True)
class Usage:
    streams: tuple[StreamUsage, ...]
    """The largest egress first."""
    streams_left_out: int
    days: tuple[DayUsage, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    path: str
    app: str
    stream: str
    started_at: datetime
    duration_ms: int
    bytes: int
    video: str | None
    audio: str | None
    gaps: int
    gap_ms: int
    status: str
    archive_status: str | None
    """Status of the archive job; None: it has not processed the file."""
    archive_reason: str | None
    mp4_path: str | None


@dataclass(frozen=True, slots=True)
class DayRecorded:
    day: date
    app: str
    files: int
    duration_ms: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Recordings:
    newest: tuple[Recording, ...]
    left_out: int
    days: tuple[DayRecorded, ...]
    """By the UTC day on which they began."""
    archive: dict[str, int]
    """Files by status of the archive job."""


@dataclass(frozen=True, slots=True)
class DataQuality:
    """One check that was violated."""

    table: str
    check: str
    violations: int
    subjects: int
    last_at: datetime
    detail: str
    """Of its newest violation."""


@dataclass(frozen=True, slots=True)
class Report:
    made_at: datetime
    since: datetime | None
    """Start of the span that was asked for; None: no limit."""
    until: datetime | None
    first_at: datetime | None
    """The first minute with data; None: there is none."""
    newest_at: datetime | None
    """The end of the newest minute: how fresh the figures are."""
    is_being_built: bool
    """Whether some tables are newer than others, since a run is under way."""
    started_at: datetime | None
    """Start of the server, if all figures are since then; None: there are older ones, or it is not known."""
    totals: Totals
    audience: Audience
    quality: QualityPart
    health: Health
    usage: Usage
    recordings: Recordings
    data_quality: tuple[DataQuality, ...]


def to_json(value: Any) -> str:
    """Any of these values as JSON; times are ISO 8601 in UTC."""
    return json.dumps(dataclasses.asdict(value), default=_plain, ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case _:
            raise TypeError(f"reports hold no {type(value).__name__}")
