"""Parcels: messages between processes of one server, on a stream of bytes with descriptors beside it.

Owns how a message is cut out of the bytes of a Unix socket, however they were read, and which of the descriptors that
came along are its own. Knows nothing of what messages mean. Both sides are processes of one server, started by its
supervisor; a length that is out of bounds is a defect, and ends the link.
"""

import struct
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.errors import MalformedInput

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""The index of a log has 8,192 entries at most, and its codec configuration 256 kB for each entry point."""
MAX_DESCRIPTORS: Final = 250
"""The kernel takes 253 beside one message."""
_HEADER: Final = struct.Struct("<IH")


class Parcel(NamedTuple):
    """One message, and the descriptors that belong to it. Whoever takes it closes them."""

    body: bytes
    descriptors: tuple[int, ...] = ()


def write_parcel(parcel: Parcel) -> bytes:
    """A parcel as bytes; its descriptors travel beside the first of them."""
    if len(parcel.body) > MAX_BODY_BYTES or len(parcel.descriptors) > MAX_DESCRIPTORS:
        raise MalformedInput("link", f"a message of {len(parcel.body)} bytes, {len(parcel.descriptors)} descriptors")
    return _HEADER.pack(len(parcel.body), len(parcel.descriptors)) + parcel.body


class ParcelReader:
    """Bytes and descriptors, as they were received, to parcels."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._descriptors: deque[int] = deque()

    def feed(self, data: bytes, descriptors: Iterable[int] = ()) -> None:
        """Take what was received."""
        self._data += data
        self._descriptors.extend(descriptors)

    def next_parcel(self) -> Parcel | None:
        """The next whole one. Descriptors come with or before the bytes that they belong to."""
        if len(self._data) < _HEADER.size:
            return None
        length, count = _HEADER.unpack_from(self._data)
        if length > MAX_BODY_BYTES:
            raise MalformedInput("link", f"a message of {length} bytes")
        end = _HEADER.size + length
        if len(self._data) < end:
            return None
        if len(self._descriptors) < count:
            raise MalformedInput("link", f"{len(self._descriptors)} of {count} descriptors came with a message")
        body = bytes(memoryview(self._data)[_HEADER.size : end])
        del self._data[:end]
        return Parcel(body, tuple(self._descriptors.popleft() for _ in range(count)))

    def unclaimed(self) -> tuple[int, ...]:
        """Descriptors of messages that never became whole, to be closed."""
        left = tuple(self._descriptors)
        self._descriptors.clear()
        return left
