"""A second, simple reader of RTMP, as an oracle for the real one (RTMP 1.0, sections 5.2 to 5.4).

Reads one whole direction of a recorded session, slowly and plainly. Imports nothing from the product, so that a slip in
one of the two readers shows as a difference. It bounds nothing and trusts its input: for captures, never for the
network. Bytes that are not RTMP raise ValueError.
"""

import struct
from dataclasses import dataclass, field

HANDSHAKE_BYTES = 1 + 1536 + 1536
SET_CHUNK_SIZE, ABORT, AMF0_DATA, AMF3_COMMAND, AMF0_COMMAND = 1, 2, 18, 17, 20


@dataclass(frozen=True, slots=True)
class OracleMessage:
    """One RTMP message with its absolute timestamp in milliseconds."""

    csid: int
    timestamp: int
    type_id: int
    stream_id: int
    payload: bytes


@dataclass(slots=True)
class _ChunkStream:
    """What the last headers on one chunk stream said. `delta` is what a message that repeats all of it advances by."""

    timestamp: int = 0
    delta: int = 0
    extended: int | None = None
    length: int = 0
    type_id: int = 0
    stream_id: int = 0
    is_in_message: bool = False
    payload: bytearray = field(default_factory=bytearray)


def read_messages(stream: bytes) -> list[OracleMessage]:
    """All whole messages of one direction, handshake included in `stream` and skipped."""
    return read_messages_and_tail(stream)[0]


def read_messages_and_tail(stream: bytes) -> tuple[list[OracleMessage], int]:
    """The messages, and how many bytes at the end belong to a chunk or message that the capture cut off."""
    if len(stream) < HANDSHAKE_BYTES or stream[0] != 3:
        raise ValueError("no RTMP handshake of version 3 at the start")
    messages: list[OracleMessage] = []
    chunk_streams: dict[int, _ChunkStream] = {}
    chunk_size = 128
    position = settled = HANDSHAKE_BYTES
    while position < len(stream):
        try:
            position, csid, state = _read_header(stream, position, chunk_streams)
        except (IndexError, struct.error):
            break
        wanted = min(chunk_size, state.length - len(state.payload))
        if position + wanted > len(stream):
            break
        state.payload += stream[position : position + wanted]
        position += wanted
        if len(state.payload) == state.length:
            message = OracleMessage(csid, state.timestamp, state.type_id, state.stream_id, bytes(state.payload))
            state.is_in_message = False
            messages.append(message)
            if message.type_id == SET_CHUNK_SIZE:
                chunk_size = int.from_bytes(message.payload, "big")
            elif message.type_id == ABORT and (aborted := chunk_streams.get(int.from_bytes(message.payload, "big"))):
                aborted.is_in_message = False
        if not any(other.is_in_message for other in chunk_streams.values()):
            settled = position
    return messages, len(stream) - settled


def _read_header(stream: bytes, position: int, states: dict[int, _ChunkStream]) -> tuple[int, int, _ChunkStream]:
    """Read one chunk's headers; the state that comes back is in a message."""
    fmt, csid = stream[position] >> 6, stream[position] & 0x3F
    position += 1
    if csid == 0:
        csid, position = stream[position] + 64, position + 1
    elif csid == 1:
        csid, position = stream[position] + 256 * stream[position + 1] + 64, position + 2
    if fmt >= 2 and csid not in states:
        raise ValueError(f"type {fmt} header on unseen chunk stream {csid} at byte {position}")
    state = states.setdefault(csid, _ChunkStream())
    starts_message = not state.is_in_message
    if fmt == 3:
        if state.extended is not None:
            # Some peers leave the repeated four bytes out; then these are payload and are left where they are.
            (peeked,) = struct.unpack_from(">I", stream, position)
            position += 4 if peeked == state.extended else 0
        if starts_message:
            state.timestamp = (state.timestamp + state.delta) & 0xFFFFFFFF
    else:
        if not starts_message:
            raise ValueError(f"type {fmt} header inside a message on chunk stream {csid} at byte {position}")
        time_field = int.from_bytes(stream[position : position + 3], "big")
        if fmt <= 1:
            state.length = int.from_bytes(stream[position + 3 : position + 6], "big")
            state.type_id = stream[position + 6]
        if fmt == 0:
            (state.stream_id,) = struct.unpack_from("<I", stream, position + 7)
        position += (11, 7, 3)[fmt]
        state.extended = None
        if time_field == 0xFFFFFF:
            (time_field,) = struct.unpack_from(">I", stream, position)
            state.extended = time_field
            position += 4
        state.delta = time_field
        state.timestamp = time_field if fmt == 0 else (state.timestamp + time_field) & 0xFFFFFFFF
    if starts_message:
        state.is_in_message, state.payload = True, bytearray()
    return position, csid, state


def read_amf0_values(payload: bytes) -> list[object]:
    """The AMF0 values of a command or data message. Objects and ECMA arrays are dicts, null and undefined None."""
    values: list[object] = []
    position = 0
    while position < len(payload):
        value, position = _read_amf0_value(payload, position)
        values.append(value)
    return values


def command_values(message: OracleMessage) -> list[object]:
    """Name, transaction id and arguments of a command, or name and values of a data message."""
    if message.type_id not in (AMF0_DATA, AMF3_COMMAND, AMF0_COMMAND):
        raise ValueError(f"message type {message.type_id} holds no AMF0 values")
    return read_amf0_values(message.payload[1:] if message.type_id == AMF3_COMMAND else message.payload)


def command_names(messages: list[OracleMessage]) -> list[str]:
    """The names of all commands, in order; data messages are left out."""
    return [str(command_values(each)[0]) for each in messages if each.type_id in (AMF3_COMMAND, AMF0_COMMAND)]


def _read_amf0_value(data: bytes, position: int) -> tuple[object, int]:
    marker, position = data[position], position + 1
    if marker == 0:
        return struct.unpack_from(">d", data, position)[0], position + 8
    if marker == 1:
        return data[position] != 0, position + 1
    if marker == 2:
        return _read_string(data, position)
    if marker in (5, 6):
        return None, position
    if marker in (3, 8):
        return _read_properties(data, position + (4 if marker == 8 else 0))
    if marker == 10:
        (count,) = struct.unpack_from(">I", data, position)
        items: list[object] = []
        position += 4
        for _ in range(count):
            item, position = _read_amf0_value(data, position)
            items.append(item)
        return items, position
    raise ValueError(f"AMF0 marker {marker} at byte {position - 1}")


def _read_properties(data: bytes, position: int) -> tuple[dict[str, object], int]:
    properties: dict[str, object] = {}
    while data[position : position + 3] != b"\x00\x00\x09":
        name, position = _read_string(data, position)
        properties[name], position = _read_amf0_value(data, position)
    return properties, position + 3


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">H", data, position)
    start = position + 2
    return data[start : start + length].decode(), start + length
