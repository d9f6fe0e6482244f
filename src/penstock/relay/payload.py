"""Payloads out of a log: what a message carries, without the chunk headers of the shared encoding.

Owns the way back from stand-alone messages (RTMP 1.0, section 5.3.1) for consumers that write something else than
chunks, such as FLV. The log's own records say where a message lies and how long it is, so nothing is searched for. A
chunk size that does not fit the log is refused.
"""

from collections.abc import Iterator
from typing import Final

from penstock.errors import MisuseError
from penstock.protocol.message import EXTENDED
from penstock.relay.segment import Entry, Segment

_HEADER_BYTES: Final = 12
_EXTENDED_BYTES: Final = 4

Payload = memoryview | bytearray


def read_payloads(segment: Segment, entries: list[Entry], chunk_size: int) -> Iterator[tuple[Entry, Payload]]:
    """Neighbouring messages of a segment with what they carry, by one read for all."""
    start = entries[0].position
    end = entries[-1].position + entries[-1].encoded_bytes
    data = memoryview(segment.read(start, end - start))
    for entry in entries:
        offset = entry.position - start
        yield entry, payload_of(data[offset : offset + entry.encoded_bytes], entry, chunk_size)


def payload_position(entry: Entry, offset: int, chunk_size: int) -> int:
    """Where a byte of the payload lies, counted from the first byte of its message."""
    extended_bytes = _extended_bytes(entry)
    return _HEADER_BYTES + extended_bytes + offset + offset // chunk_size * (1 + extended_bytes)


def payload_of(encoded: memoryview, entry: Entry, chunk_size: int) -> Payload:
    """What one encoded message carries; a copy only where chunk headers lie in between."""
    extended_bytes = _extended_bytes(entry)
    body = encoded[_HEADER_BYTES + extended_bytes :]
    if len(body) == entry.payload_bytes:
        return body
    payload = bytearray(body)
    # One strided delete takes the same byte of every chunk header; the extended time is repeated in each.
    for header_bytes in range(1 + extended_bytes, 0, -1):
        del payload[chunk_size :: chunk_size + header_bytes]
    if len(payload) != entry.payload_bytes:
        raise MisuseError(f"payload: {len(payload)} bytes, not {entry.payload_bytes}, at a chunk size of {chunk_size}")
    return payload


def _extended_bytes(entry: Entry) -> int:
    return _EXTENDED_BYTES if entry.timestamp_ms & 0xFFFFFFFF >= EXTENDED else 0
