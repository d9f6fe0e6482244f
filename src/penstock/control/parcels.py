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
    """Bytes and descriptors, as they were received, to parcels.

    Descriptors are sent beside the first byte of their own parcel, and the kernel never gives those of two parcels with
    one read (unix(7): ancillary data ends it). So each read with descriptors has those of one parcel, all or, if the
    process is out of them, too few.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._descriptors: deque[tuple[tuple[int, ...], bool]] = deque()
        self._orphans: tuple[int, ...] = ()

    def feed(self, data: bytes, descriptors: Iterable[int] = (), *, is_cut: bool = False) -> None:
        """Take what was received. `is_cut`: there were more descriptors, which the process had no room for."""
        self._data += data
        if (taken := tuple(descriptors)) or is_cut:
            self._descriptors.append((taken, is_cut))

    def next_parcel(self) -> Parcel | None:
        """The next whole one. One whose descriptors were cut comes without any, and they are left unclaimed."""
        if len(self._data) < _HEADER.size:
            return None
        length, count = _HEADER.unpack_from(self._data)
        if length > MAX_BODY_BYTES:
            raise MalformedInput("link", f"a message of {length} bytes")
        end = _HEADER.size + length
        if len(self._data) < end:
            return None
        descriptors = self._take_descriptors(count) if count else ()
        body = bytes(memoryview(self._data)[_HEADER.size : end])
        del self._data[:end]
        return Parcel(body, descriptors)

    def _take_descriptors(self, count: int) -> tuple[int, ...]:
        descriptors, is_cut = self._descriptors.popleft() if self._descriptors else ((), False)
        if is_cut:
            self._orphans += descriptors
            return ()
        if len(descriptors) != count:
            self._orphans += descriptors
            raise MalformedInput("link", f"{len(descriptors)} of {count} descriptors came with a message")
        return descriptors

    def unclaimed(self) -> tuple[int, ...]:
        """Descriptors that belong to no message that was taken, to be closed."""
        left = (*self._orphans, *(each for descriptors, _ in self._descriptors for each in descriptors))
        self._orphans = ()
        self._descriptors.clear()
        return left
