"""What sessions tell their shell, one at a time.

Values only. `MediaReceived` is a NamedTuple, as one is made per message on the hot path; everything else is rare and
a frozen dataclass.
"""

import enum
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from penstock.amf import AmfValue
from penstock.protocol.capabilities import Capabilities


class MediaReceived(NamedTuple):
    """An audio (8) or video (9) message of a stream. Payload bytes are as the peer sent them."""

    type_id: int
    stream_id: int
    timestamp_ms: int
    """Unwrapped: it does not fall back to 0 after 2^32."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class DataReceived:
    """A data message, as AMF0 and without @setDataFrame, ready to be passed on as type 18."""

    stream_id: int
    timestamp_ms: int
    name: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class DataCleared:
    """The publisher took a data message back (@clearDataFrame)."""

    stream_id: int
    timestamp_ms: int
    name: str


@dataclass(frozen=True, slots=True)
class MessageIgnored:
    """A message that changes nothing, and why: for logs and counters."""

    type_id: int
    stream_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class HandshakeCompleted:
    """Chunks come next."""

    used_digest: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The peer says how many bytes it has received, in 32 bits."""

    received_bytes: int


@dataclass(frozen=True, slots=True)
class PongReceived:
    """The peer answered the ping that carried this time."""

    timestamp_ms: int


class EndReason(enum.Enum):
    """Why a publish or play ended."""

    CLOSE_STREAM = "closeStream"
    DELETE_STREAM = "deleteStream"
    FC_UNPUBLISH = "FCUnpublish"
    REPLACED = "replaced on the same message stream"
    CONNECTION_LOST = "connection lost"


# A server's shell hears these.


@dataclass(frozen=True, slots=True)
class ConnectRequested:
    """To be answered by accept_connect or reject_connect; nothing more is read before.

    One with a `fault` is to be rejected with it as the description: its app or query is too long, and not in the event.
    """

    app: str
    app_query: str | None
    tc_url: str | None
    flash_version: str | None
    object_encoding: int
    capabilities: Capabilities
    fault: str | None = None
    via: tuple[str, ...] = ()
    """The servers that ask for what is played here, the first of them first, where servers pull from each other."""


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The client made a message stream."""

    stream_id: int


@dataclass(frozen=True, slots=True)
class PublishRequested:
    """To be answered by accept_publish or reject_publish; nothing more is read before."""

    stream_id: int
    name: str
    query: str | None
    publishing_type: str


@dataclass(frozen=True, slots=True)
class PublishEnded:
    """No more media will come on this message stream."""

    stream_id: int
    name: str
    reason: EndReason


class PlayStart(enum.Enum):
    """Which kind of stream a viewer asked for."""

    LIVE_OR_RECORDED = -2
    LIVE = -1
    RECORDED = 0


@dataclass(frozen=True, slots=True)
class PlayRequested:
    """To be answered by accept_play or reject_play, now or later."""

    stream_id: int
    name: str
    query: str | None
    start: PlayStart
    start_ms: int | None
    duration_ms: int | None
    is_reset: bool


@dataclass(frozen=True, slots=True)
class PlayEnded:
    """The viewer wants no more of this stream."""

    stream_id: int
    name: str
    reason: EndReason


@dataclass(frozen=True, slots=True)
class PauseChanged:
    """The viewer paused or resumed, and was told that it did."""

    stream_id: int
    is_paused: bool
    position_ms: int


@dataclass(frozen=True, slots=True)
class SeekRequested:
    """To be answered by accept_seek or reject_seek."""

    stream_id: int
    position_ms: int


@dataclass(frozen=True, slots=True)
class ReceiveChanged:
    """The viewer switched audio (8) or video (9) on or off."""

    stream_id: int
    type_id: int
    is_wanted: bool


@dataclass(frozen=True, slots=True)
class BufferLengthSet:
    """The viewer keeps this much in its buffer."""

    stream_id: int
    buffer_ms: int


# A client's shell hears these.


@dataclass(frozen=True, slots=True)
class Connected:
    """The server took the connection."""

    properties: dict[str, AmfValue]
    information: dict[str, AmfValue]
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class ConnectRefused:
    """The server refused the connection."""

    code: str
    description: str


@dataclass(frozen=True, slots=True)
class CallRefused:
    """The server answered a command other than connect with _error."""

    command_name: str
    code: str
    description: str


@dataclass(frozen=True, slots=True)
class StreamCreated:
    """The answer to create_stream."""

    stream_id: int


@dataclass(frozen=True, slots=True)
class PublishStarted:
    """Media may be sent."""

    stream_id: int


@dataclass(frozen=True, slots=True)
class PlayStarted:
    """Media will come."""

    stream_id: int


@dataclass(frozen=True, slots=True)
class StreamRefused:
    """The server refused a publish or play, or broke it off with an error."""

    stream_id: int
    code: str
    description: str


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """The stream being played is over."""

    stream_id: int
    code: str


@dataclass(frozen=True, slots=True)
class StatusReceived:
    """Any other status, for logs."""

    stream_id: int
    level: str
    code: str
    description: str


@dataclass(frozen=True, slots=True)
class ReconnectRequested:
    """The server asks the client to come back, by another address if one is given."""

    tc_url: str | None
    description: str


Event: TypeAlias = (
    MediaReceived
    | DataReceived
    | DataCleared
    | MessageIgnored
    | HandshakeCompleted
    | Acknowledged
    | PongReceived
    | ConnectRequested
    | StreamOpened
    | PublishRequested
    | PublishEnded
    | PlayRequested
    | PlayEnded
    | PauseChanged
    | SeekRequested
    | ReceiveChanged
    | BufferLengthSet
    | Connected
    | ConnectRefused
    | CallRefused
    | StreamCreated
    | PublishStarted
    | PlayStarted
    | StreamRefused
    | StreamEnded
    | StatusReceived
    | ReconnectRequested
)
