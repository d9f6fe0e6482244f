"""Control messages 1 to 6 (RTMP 1.0, sections 5.4 and 7.1.7): values to payloads and back.

Owns the layout and the validity of these messages. What they do to a connection is `connection`'s matter.
"""

import enum
from dataclasses import dataclass
from struct import Struct

from penstock.errors import ProtocolViolation
from penstock.protocol.message import Message, MessageType

CONTROL_CHUNK_STREAM_ID = 2
_WORD = Struct(">I")
_EVENT = Struct(">HI")
_EVENT_WITH_LENGTH = Struct(">HII")


@dataclass(frozen=True, slots=True)
class SetChunkSize:
    """From the next chunk on, the sender's chunks hold up to this many bytes."""

    chunk_size: int


@dataclass(frozen=True, slots=True)
class Abort:
    """The half message on this chunk stream will not be finished."""

    chunk_stream_id: int


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The low 32 bits of how many bytes the sender has received so far."""

    received_bytes: int


@dataclass(frozen=True, slots=True)
class WindowAcknowledgementSize:
    """The sender wants an Acknowledgement at least each time this many bytes have reached the receiver."""

    window_bytes: int


class BandwidthLimit(enum.IntEnum):
    """How a Set Peer Bandwidth is meant."""

    HARD = 0
    SOFT = 1
    DYNAMIC = 2


@dataclass(frozen=True, slots=True)
class SetPeerBandwidth:
    """The receiver should have no more than this many bytes on the way unacknowledged."""

    window_bytes: int
    limit: BandwidthLimit


class UserControlEvent(enum.IntEnum):
    """The events of user control messages that have a name."""

    STREAM_BEGIN = 0
    STREAM_EOF = 1
    STREAM_DRY = 2
    SET_BUFFER_LENGTH = 3
    STREAM_IS_RECORDED = 4
    PING_REQUEST = 6
    PING_RESPONSE = 7
    BUFFER_EMPTY = 31
    BUFFER_READY = 32


@dataclass(frozen=True, slots=True)
class UserControl:
    """A user control event with one number: a message stream id, or the time of a ping in ms."""

    event: UserControlEvent
    value: int


@dataclass(frozen=True, slots=True)
class SetBufferLength:
    """The client keeps this much of the stream in its buffer."""

    stream_id: int
    buffer_ms: int


@dataclass(frozen=True, slots=True)
class UnknownUserControl:
    """An event without a meaning here, such as SWF verification. To be ignored."""

    event: int
    data: bytes


ControlMessage = (
    SetChunkSize
    | Abort
    | Acknowledgement
    | WindowAcknowledgementSize
    | SetPeerBandwidth
    | UserControl
    | SetBufferLength
    | UnknownUserControl
)


def read_control(type_id: int, payload: bytes) -> ControlMessage:
    """Read the payload of a message of type 1 to 6; what is wrong with it is a ProtocolViolation."""
    if type_id == MessageType.USER_CONTROL:
        return _read_user_control(payload)
    if len(payload) < 4:
        raise _too_short(f"message type {type_id}", payload, 4)
    (value,) = _WORD.unpack_from(payload)
    match type_id:
        case MessageType.SET_CHUNK_SIZE:
            if not 1 <= value <= 0x7FFFFFFF:
                raise ProtocolViolation("control", f"Set Chunk Size {value:#x} is not in 1..0x7fffffff")
            return SetChunkSize(value)
        case MessageType.ABORT:
            return Abort(value)
        case MessageType.ACKNOWLEDGEMENT:
            return Acknowledgement(value)
        case MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE:
            if value == 0:
                raise ProtocolViolation("control", "Window Acknowledgement Size 0")
            return WindowAcknowledgementSize(value)
        case MessageType.SET_PEER_BANDWIDTH:
            if len(payload) < 5:
                raise _too_short("Set Peer Bandwidth", payload, 5)
            if value == 0:
                raise ProtocolViolation("control", "Set Peer Bandwidth 0")
            if payload[4] > BandwidthLimit.DYNAMIC:
                raise ProtocolViolation("control", f"Set Peer Bandwidth limit type {payload[4]} is not in 0..2")
            return SetPeerBandwidth(value, BandwidthLimit(payload[4]))
    raise ProtocolViolation("control", f"message type {type_id} is no control message")


def _read_user_control(payload: bytes) -> ControlMessage:
    if len(payload) < 2:
        raise _too_short("User Control", payload, 2)
    number = int.from_bytes(payload[:2], "big")
    try:
        event = UserControlEvent(number)
    except ValueError:
        return UnknownUserControl(number, payload[2:])
    needed_bytes = 10 if event is UserControlEvent.SET_BUFFER_LENGTH else 6
    if len(payload) < needed_bytes:
        raise _too_short(f"User Control event {number}", payload, needed_bytes)
    if event is UserControlEvent.SET_BUFFER_LENGTH:
        return SetBufferLength(*_EVENT_WITH_LENGTH.unpack_from(payload)[1:])
    return UserControl(event, _EVENT.unpack_from(payload)[1])


def _too_short(what: str, payload: bytes, needed_bytes: int) -> ProtocolViolation:
    return ProtocolViolation("control", f"{what} has {len(payload)} of {needed_bytes} bytes")


def write_control(control: ControlMessage, timestamp_ms: int = 0) -> Message:
    """The message for a control value, on chunk stream 2 and message stream 0 as all of them are."""
    type_id, payload = _control_payload(control)
    return Message(type_id, timestamp_ms, 0, payload, CONTROL_CHUNK_STREAM_ID)


def _control_payload(control: ControlMessage) -> tuple[int, bytes]:
    match control:
        case SetChunkSize(value):
            return MessageType.SET_CHUNK_SIZE, _WORD.pack(value)
        case Abort(value):
            return MessageType.ABORT, _WORD.pack(value)
        case Acknowledgement(value):
            return MessageType.ACKNOWLEDGEMENT, _WORD.pack(value)
        case WindowAcknowledgementSize(value):
            return MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE, _WORD.pack(value)
        case SetPeerBandwidth(value, limit):
            return MessageType.SET_PEER_BANDWIDTH, _WORD.pack(value) + bytes((limit,))
        case UserControl(event, value):
            return MessageType.USER_CONTROL, _EVENT.pack(event, value)
        case SetBufferLength(stream_id, buffer_ms):
            event = UserControlEvent.SET_BUFFER_LENGTH
            return MessageType.USER_CONTROL, _EVENT_WITH_LENGTH.pack(event, stream_id, buffer_ms)
        case UnknownUserControl(event_number, data):
            return MessageType.USER_CONTROL, event_number.to_bytes(2, "big") + data
