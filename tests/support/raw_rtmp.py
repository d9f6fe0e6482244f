"""RTMP as plain bytes: AMF0 and chunks both ways, for clients that share no code with the product.

The reader is strict, by the letter of what our server may send: what is not a sequence of whole messages raises at
once.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

AUDIO, VIDEO, DATA, COMMAND = 8, 9, 18, 20
KNOWN_TYPES = frozenset((1, 2, 3, 4, 5, 6, AUDIO, VIDEO, DATA, COMMAND))


class Corrupted(AssertionError):
    """The server sent what is no sequence of whole messages."""


class RawMessage(NamedTuple):
    """One message as it came."""

    type_id: int
    timestamp_ms: int
    stream_id: int
    payload: bytes


# AMF0.


def amf0(*values: object) -> bytes:
    """Numbers, texts, booleans, None and dicts of them."""
    return b"".join(map(_amf0_value, values))


def _amf0_value(value: object) -> bytes:
    if value is None:
        return b"\x05"
    if isinstance(value, bool):
        return b"\x01" + bytes((value,))
    if isinstance(value, int | float):
        return b"\x00" + struct.pack(">d", value)
    if isinstance(value, dict):
        members = b"".join(_short(str(name)) + _amf0_value(member) for name, member in value.items())
        return b"\x03" + members + b"\x00\x00\x09"
    return b"\x02" + _short(str(value))


def _short(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack(">H", len(data)) + data


def text_at(data: bytes, position: int) -> str:
    """The text of an AMF0 string, from its length on."""
    (length,) = struct.unpack_from(">H", data, position)
    return data[position + 2 : position + 2 + length].decode()


# Chunks.


def chunked(message: RawMessage, csid: int, chunk_size: int) -> bytes:
    """A message with a full header."""
    stamp = message.timestamp_ms & 0xFFFFFFFF
    extended = struct.pack(">I", stamp) if stamp >= 0xFFFFFF else b""
    head = bytes((csid,)) + min(stamp, 0xFFFFFF).to_bytes(3, "big") + len(message.payload).to_bytes(3, "big")
    head += bytes((message.type_id,)) + struct.pack("<I", message.stream_id) + extended
    payload = message.payload
    if len(payload) <= chunk_size:
        return head + payload
    between = bytes((0xC0 | csid,)) + extended
    return head + between.join(payload[start : start + chunk_size] for start in range(0, len(payload), chunk_size))


class _ChunkStream:
    __slots__ = ("body", "extended", "length", "stamp", "stream_id", "type_id")

    def __init__(self) -> None:
        self.stamp = self.length = self.type_id = self.stream_id = 0
        self.extended = False
        self.body: bytearray | None = None


class RawReader:
    """Bytes to messages, by the letter: anything else is `Corrupted`."""

    def __init__(self, on_message: Callable[[RawMessage], None]) -> None:
        self.chunk_size = 128
        self._on_message = on_message
        self._buffer = bytearray()
        self._streams: dict[int, _ChunkStream] = {}

    @property
    def is_between_messages(self) -> bool:
        return not self._buffer and all(stream.body is None for stream in self._streams.values())

    def feed(self, data: bytes) -> None:
        self._buffer += data
        buffer = self._buffer
        position, end = 0, len(buffer)
        while position < end:
            taken = self._read_chunk(buffer, position, end)
            if taken == 0:
                break
            position += taken
        del buffer[:position]

    def _read_chunk(self, buffer: bytearray, start: int, end: int) -> int:
        first = buffer[start]
        fmt, csid = first >> 6, first & 0x3F
        if csid < 2:
            raise Corrupted(f"long chunk stream id {csid} from the server")
        header = (11, 7, 3, 0)[fmt]
        position = start + 1
        if position + header > end:
            return 0
        stream = self._streams.get(csid)
        if stream is None:
            if fmt != 0:
                raise Corrupted(f"type {fmt} header on unseen chunk stream {csid}")
            stream = self._streams[csid] = _ChunkStream()
        is_new = stream.body is None
        if is_new == (fmt == 3):
            raise Corrupted(f"type {fmt} header on chunk stream {csid}, in a message: {not is_new}")
        if fmt == 3:
            if stream.extended:
                position += 4
        else:
            field = int.from_bytes(buffer[position : position + 3], "big")
            extended = field == 0xFFFFFF
            if extended:
                if position + header + 4 > end:
                    return 0
                (field,) = struct.unpack_from(">I", buffer, position + header)
            length, type_id = stream.length, stream.type_id
            if fmt < 2:
                length = int.from_bytes(buffer[position + 3 : position + 6], "big")
                type_id = buffer[position + 6]
            if type_id not in KNOWN_TYPES:
                raise Corrupted(f"message type {type_id} on chunk stream {csid}")
            position += header + (4 if extended else 0)
            if position + min(length, self.chunk_size) > end:
                return 0
            if fmt == 0:
                (stream.stream_id,) = struct.unpack_from("<I", buffer, start + 8)
            stream.stamp = field if fmt == 0 else (stream.stamp + field) & 0xFFFFFFFF
            stream.extended, stream.length, stream.type_id = extended, length, type_id
            if length <= self.chunk_size:
                self._finish(stream, bytes(buffer[position : position + length]))
                return position + length - start
        body = b"" if stream.body is None else stream.body
        wanted = min(self.chunk_size, stream.length - len(body))
        if position + wanted > end:
            return 0
        if stream.body is None:
            stream.body = bytearray()
        stream.body += buffer[position : position + wanted]
        if len(stream.body) == stream.length:
            body, stream.body = stream.body, None
            self._finish(stream, bytes(body))
        return position + wanted - start

    def _finish(self, stream: _ChunkStream, payload: bytes) -> None:
        if stream.type_id == 1:
            self.chunk_size = int.from_bytes(payload, "big")
        self._on_message(RawMessage(stream.type_id, stream.stamp, stream.stream_id, payload))
