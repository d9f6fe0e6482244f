"""Chunk streams (RTMP 1.0, section 5.3), the writing half: whole messages in, bytes out.

Owns header compression towards one peer, and the stand-alone form that any number of peers can share. Knows no
commands, sessions, sockets or clock.

Two shapes that the specification allows are never written. A type 3 header never opens a message, since peers
disagree on how far the time moves then. A delta is never extended, since one peer in use reads it as absolute: a
type 0 header is written in its place.
"""

from collections.abc import Callable
from struct import Struct

from penstock.errors import MisuseError
from penstock.protocol.message import DEFAULT_CHUNK_SIZE, EXTENDED, MAX_MESSAGE_BYTES, Message

MAX_CHUNK_STREAM_ID = 65599
_WORD = Struct(">I")
_LITTLE_WORD = Struct("<I")


def basic_header(chunk_type: int, chunk_stream_id: int) -> bytes:
    """The shortest basic header for a chunk stream id of 2..65599."""
    if chunk_stream_id < 2 or chunk_stream_id > MAX_CHUNK_STREAM_ID:
        raise MisuseError(f"chunk stream {chunk_stream_id} is not in 2..{MAX_CHUNK_STREAM_ID}")
    if chunk_stream_id < 64:
        return bytes((chunk_type << 6 | chunk_stream_id,))
    if chunk_stream_id < 320:
        return bytes((chunk_type << 6, chunk_stream_id - 64))
    return bytes((chunk_type << 6 | 1,)) + (chunk_stream_id - 64).to_bytes(2, "little")


def write_standalone(message: Message, chunk_size: int) -> bytes:
    """One message that needs nothing before it: a type 0 header with an absolute time."""
    timestamp_ms = message.timestamp_ms & 0xFFFFFFFF
    extended = b"" if timestamp_ms < EXTENDED else _WORD.pack(timestamp_ms)
    head = (
        basic_header(0, message.chunk_stream_id)
        + _WORD.pack(min(timestamp_ms, EXTENDED))[1:]
        + _WORD.pack(_checked_length(message.payload) << 8 | message.type_id)
        + _LITTLE_WORD.pack(message.stream_id)
        + extended
    )
    return _join_chunks(head, message.chunk_stream_id, extended, message.payload, chunk_size)


def standalone_writer(
    chunk_stream_id: int, type_id: int, stream_id: int, chunk_size: int
) -> Callable[[int, bytes], bytes]:
    """`write_standalone` for one kind of message, with all that does not change worked out before.

    Takes time and payload. For chunk streams below 64.
    """
    first_word = basic_header(0, chunk_stream_id)[0] << 24
    stream_word = int.from_bytes(_LITTLE_WORD.pack(stream_id), "big")
    continuation = basic_header(3, chunk_stream_id)
    if len(continuation) > 1:
        raise MisuseError(f"chunk stream {chunk_stream_id} has a long header")
    pack_head = Struct(">III").pack

    def write(timestamp_ms: int, payload: bytes) -> bytes:
        length = len(payload)
        if timestamp_ms >= EXTENDED or timestamp_ms < 0 or length > MAX_MESSAGE_BYTES:
            return write_standalone(Message(type_id, timestamp_ms, stream_id, payload, chunk_stream_id), chunk_size)
        head = pack_head(first_word | timestamp_ms, length << 8 | type_id, stream_word)
        if length <= chunk_size:
            return head + payload
        return head + continuation.join([payload[start : start + chunk_size] for start in range(0, length, chunk_size)])

    return write


def _checked_length(payload: bytes) -> int:
    if len(payload) > MAX_MESSAGE_BYTES:
        raise MisuseError(f"a message of {len(payload)} bytes; the length field ends at {MAX_MESSAGE_BYTES}")
    return len(payload)


def _join_chunks(head: bytes, chunk_stream_id: int, extended: bytes, payload: bytes, chunk_size: int) -> bytes:
    length = len(payload)
    if length <= chunk_size:
        return head + payload
    # Readers such as FFmpeg and librtmp expect the extended timestamp on every chunk of the message.
    continuation = basic_header(3, chunk_stream_id) + extended
    return head + continuation.join([payload[start : start + chunk_size] for start in range(0, length, chunk_size)])


class ChunkWriter:
    """The sending state of one connection: what the peer remembers of each chunk stream."""

    __slots__ = ("_chunk_size", "_last")

    def __init__(self) -> None:
        self._chunk_size = DEFAULT_CHUNK_SIZE
        self._last: dict[int, tuple[int, int, int, int]] = {}
        """Chunk stream id to time, length, type and message stream id of its last message."""

    @property
    def chunk_size(self) -> int:
        """The largest payload of a chunk, as the peer was told."""
        return self._chunk_size

    @chunk_size.setter
    def chunk_size(self, chunk_size: int) -> None:
        if not 1 <= chunk_size <= 0x7FFFFFFF:
            raise MisuseError(f"chunk size {chunk_size} is not in 1..0x7fffffff")
        self._chunk_size = chunk_size

    def write_message(self, message: Message) -> bytes:
        """One message with the shortest header that its predecessor on the chunk stream allows."""
        type_id, timestamp_ms, stream_id, payload, chunk_stream_id = message
        timestamp_ms &= 0xFFFFFFFF
        length = len(payload)
        last = self._last.get(chunk_stream_id)
        self._last[chunk_stream_id] = (timestamp_ms, length, type_id, stream_id)
        if last is not None and last[3] == stream_id:
            delta_ms = timestamp_ms - last[0]
            # Time that goes back, and the wrap at 2^32 with it, cannot be told by a delta.
            if 0 <= delta_ms < EXTENDED:
                if last[1] == length and last[2] == type_id:
                    head = basic_header(2, chunk_stream_id) + _WORD.pack(delta_ms)[1:]
                else:
                    fields = _WORD.pack(delta_ms)[1:] + _WORD.pack(_checked_length(payload) << 8 | type_id)
                    head = basic_header(1, chunk_stream_id) + fields
                return _join_chunks(head, chunk_stream_id, b"", payload, self._chunk_size)
        return write_standalone(message, self._chunk_size)
