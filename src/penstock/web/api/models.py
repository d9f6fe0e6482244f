"""What the API takes and answers, for its schema. Field names are those of facts, with units.

Owns the shapes. What is not known is null.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from penstock.web.api.block_list import normal_address

Count = Annotated[int, Field(ge=0)]
Address = Annotated[
    str,
    AfterValidator(normal_address),
    WithJsonSchema({"anyOf": [{"type": "string", "format": kind} for kind in ("ipv4", "ipv6")]}),
]
Item = TypeVar("Item")


class Items(BaseModel, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    next_cursor: str | None


class Server(BaseModel):
    """The server as a whole."""

    server_id: str
    version: str
    life_id: str
    """One life of the supervisor."""
    state: Literal["ready", "draining", "stopping", "not ready"]
    complaint: str | None
    """Why it is not ready, or which worker does not answer."""
    started_at: datetime
    workers: Count
    connections: Count
    publishers: Count
    viewers: Count
    streams: Count
    received_bytes: Count
    sent_bytes: Count


class Publisher(BaseModel):
    """Who publishes a stream."""

    conn_id: str
    peer_addr: str
    protocol: str
    client: str | None
    auth_subject: str | None


class Video(BaseModel):
    """What a stream shows."""

    codec: str
    width: int | None
    height: int | None


class Audio(BaseModel):
    """What a stream sounds like."""

    codec: str
    sample_rate_hz: int | None
    channels: int | None


class Stream(BaseModel):
    """A stream that is published, or waits for its publisher to come back."""

    app: str
    stream: str
    state: Literal["live", "waiting"]
    started_at: datetime
    publisher: Publisher | None
    video: Video | None
    audio: Audio | None
    bitrate_bps: Count
    fps: float
    keyframe_interval_ms: int | None
    av_skew_ms: float | None
    viewers: Count
    viewers_by_protocol: dict[str, int]
    received_bytes: Count
    sent_bytes: Count
    is_recording: bool
    worker: int
    verdict: str
    advice: list[str]


class Connection(BaseModel):
    """An open connection."""

    conn_id: str
    peer_addr: str
    protocol: str
    client: str | None
    app: str | None
    opened_at: datetime
    received_bytes: Count
    sent_bytes: Count
    worker: int


class Viewer(BaseModel):
    """Somebody who watches a stream."""

    view_id: str
    conn_id: str | None
    app: str
    stream: str
    protocol: str
    peer_addr: str
    client: str | None
    auth_subject: str | None
    started_at: datetime
    watched_us: Count
    sent_bytes: Count
    lag_ms: int | None
    skips: Count
    worker: int


class Recording(BaseModel):
    """One file of a recording."""

    id: str
    recording_id: str
    segment: int
    app: str
    stream: str
    path: str
    started_at: datetime
    duration_ms: int | None
    """Null while it is being written."""
    size_bytes: int | None
    status: Literal["open", "closed", "failed", "repaired"]


class Incident(BaseModel):
    """What went wrong with a stream, and for how long."""

    kind: str
    app: str
    stream: str
    started_at: datetime
    ended_at: datetime | None
    """Null: it goes on."""
    evidence: str
    advice: str


class ConfigValue(BaseModel):
    """A setting in force."""

    value: Any
    origin: str
    """The file and line, the variable or the flag that set it; or `default`."""


class Configuration(BaseModel):
    """All settings by their keys, as in `penstock config show`. Secrets are left out."""

    settings: dict[str, ConfigValue]


class ConfigVerdict(BaseModel):
    """Whether a configuration could be used."""

    is_valid: bool
    complaint: str | None


class Reloaded(BaseModel):
    """The configuration was read anew."""

    is_reloaded: Literal[True]


class _Order(BaseModel):
    # What is no number, text or truth is not made one.
    model_config = ConfigDict(extra="forbid", strict=True)


class RecordingSwitch(_Order):
    """Whether a stream is recorded."""

    is_recording: bool


class _NewBlock(_Order):
    for_s: Annotated[float, Field(gt=0, le=10 * 365 * 86_400)]


class NewAddressBlock(_NewBlock):
    """An address to keep out, and for how long."""

    address: Address


class NewSubjectBlock(_NewBlock):
    """A subject to keep out, and for how long."""

    # No token, callback or key names a longer one.
    subject: Annotated[str, Field(min_length=1, max_length=255)]


class Block(BaseModel):
    """Somebody who is kept out."""

    id: str
    address: str | None
    subject: str | None
    ends_at: datetime


class DrainOrder(_Order):
    """How long those who are connected may stay."""

    within_s: Annotated[float, Field(ge=0, le=86_400)] = 30.0


class Draining(BaseModel):
    """The server takes no new connections, and ends."""

    ends_by: datetime
