"""What the API takes and answers, for its schema. Field names are those of facts, with units.

Owns the shapes. What is not known is null.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from penstock.web.kept_lists.block_list import normal_address

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


class Caller(BaseModel):
    """Who makes a request."""

    name: str | None
    """Of the key; null: a reader on this machine, without one."""
    role: Literal["read", "operate", "admin"]


class Publisher(BaseModel):
    """Who publishes a stream."""

    conn_id: str
    peer_addr: str
    protocol: str
    client: str | None
    auth_subject: str | None
    rule: str | None
    """What let it in, as in `GET /access`; `server`: a link that this server made."""
    pulled_from: str | None
    """The address of the stream at the server that it is pulled from, without keys; null: it is published here."""


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


class LeftOut(BaseModel):
    """A track that is in a stream and not in what is sent over HTTP."""

    what: str
    why: str


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
    left_out: list[LeftOut]
    """Tracks that the formats cannot carry in which it is watched over HTTP now; empty while nobody does."""


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
    rule: str | None
    """What let it in, as in `GET /access`; `server`: a link that this server made."""
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


class Order(BaseModel):
    """What a request brings."""

    # What is no number, text or truth is not made one.
    model_config = ConfigDict(extra="forbid", strict=True)


class RecordingSwitch(Order):
    """Whether a stream is recorded."""

    is_recording: bool


class _NewBlock(Order):
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


class PushSession(BaseModel):
    """A stream that is sent to another server."""

    app: str
    stream: str
    state: Literal["connecting", "live", "retrying", "stopped"]
    """`stopped`: it was refused, and is left alone until the stream is over."""
    started_at: datetime
    attempts: Count
    """How often the server was dialled."""
    last_error: str | None
    sent_bytes: Count
    lag_ms: int | None
    """Null while nothing is sent."""
    skips: Count
    """How often the server was too far behind and lost some."""
    worker: int


class Push(BaseModel):
    """A server that streams are sent on to."""

    name: str
    streams: list[str]
    """Patterns of APP/STREAM."""
    address: str
    """Without a key."""
    origin: Literal["configuration", "api"]
    sessions: list[PushSession]


_LABEL = r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST = rf"{_LABEL}(\.{_LABEL}){{0,8}}(:{_PORT})?"
_FIXED = r"(/([A-Za-z0-9_.~-]|\{app\})+)"
_NAMED = r"(/([A-Za-z0-9_.~-]|\{app\}|\{stream\})+)"
# Narrower than what the configuration takes, so that whatever is as described is an address.
_STREAM_URL = rf"^rtmps?://{_HOST}{_NAMED}{{2,3}}(\?[A-Za-z0-9_.~=&%+-]*)?$"
_SERVER_URL = rf"^rtmps?://{_HOST}({_FIXED}{{1,3}}/?|{_NAMED}{{2,3}}\?[A-Za-z0-9_]+=\{{key\}})$"


class _NewPush(Order):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    streams: Annotated[
        list[Annotated[str, Field(pattern=r"^[^\s/]+/\S+$", max_length=255)]], Field(min_length=1, max_length=64)
    ]


class NewPush(_NewPush):
    """A server to send streams to, each under an address of its own or one at a time under one that is written out."""

    url: Annotated[str, Field(pattern=_STREAM_URL, max_length=2048)]


class NewKeyedPush(_NewPush):
    """A server that wants a key. It is given outright, and is never shown again.

    Where the url has no {key}, it names the app, and the key is the name of the stream there.
    """

    url: Annotated[str, Field(pattern=_SERVER_URL, max_length=2048)]
    key: Annotated[str, Field(pattern=r"^[!-~]{1,1024}$")]


class DrainOrder(Order):
    """How long those who are connected may stay."""

    within_s: Annotated[float, Field(ge=0, le=86_400)] = 30.0


class Draining(BaseModel):
    """The server takes no new connections, and ends."""

    ends_by: datetime
