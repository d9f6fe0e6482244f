"""Segments in shared memory: a memfd each, so that the kernel can send from them without a copy through Python."""

import os
import resource
from collections.abc import Callable, Sequence
from typing import Final

from penstock.errors import MisuseError
from penstock.relay.segment import MemoryBuffer, MemoryStore, SegmentBuffer, SegmentStore

_MAX_PIECES: Final = 1000
"""The kernel takes at most 1024 pieces in one call."""
_DESCRIPTORS_PART: Final = 4
"""One of so many descriptors may be a segment."""


class MemfdBuffer:
    """One memfd, written at its end and never changed."""

    __slots__ = ("_descriptor", "_on_close", "_size")

    def __init__(self, on_close: Callable[[], None] | None = None) -> None:
        self._descriptor = os.memfd_create("penstock-log", os.MFD_CLOEXEC)
        self._on_close = on_close
        self._size = 0

    @property
    def descriptor(self) -> int | None:
        """To send from."""
        return self._descriptor

    def append(self, pieces: Sequence[bytes]) -> None:
        """Write behind what is there."""
        end = self._size
        for start in range(0, len(pieces), _MAX_PIECES):
            end += self._write(pieces[start : start + _MAX_PIECES], end)
        # Only now: after an error half way the same bytes can be written again.
        self._size = end

    def _write(self, pieces: Sequence[bytes], offset: int) -> int:
        size = sum(map(len, pieces))
        written = os.pwritev(self._descriptor, pieces, offset)
        while written < size:
            written += os.pwrite(self._descriptor, b"".join(pieces)[written:], offset + written)
        return size

    def read(self, offset: int, size: int) -> bytes:
        """A copy of some of it."""
        return os.pread(self._descriptor, size, offset)

    def view(self, offset: int, size: int) -> memoryview:
        """Of a copy: what is there is sent by its descriptor."""
        return memoryview(self.read(offset, size))

    def close(self) -> None:
        """Give the memory back. What the kernel still has to send of it stays until it is sent."""
        os.close(self._descriptor)
        if self._on_close is not None:
            self._on_close()


class FollowedBuffer:
    """Memory that another process writes, through a descriptor that can only be read."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int | None:
        """To send from."""
        return self._descriptor

    def append(self, pieces: Sequence[bytes]) -> None:
        """Never: there is one writer for each segment."""
        raise MisuseError(f"segment: {len(pieces)} pieces written where another process writes")

    def read(self, offset: int, size: int) -> bytes:
        """A copy of some of it."""
        return os.pread(self._descriptor, size, offset)

    def view(self, offset: int, size: int) -> memoryview:
        """Of a copy: what is there is sent by its descriptor."""
        return memoryview(self.read(offset, size))

    def close(self) -> None:
        """Let go of it here."""
        os.close(self._descriptor)


def read_only_copy(descriptor: int) -> int:
    """Another descriptor of the same memory, by which a process that it is passed to can only read."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)


class MemfdStore:
    """Segments in shared memory, up to a part of the descriptors; beyond it in plain memory, so that streams go on.

    The rest of the descriptors is for connections, recordings, facts and HTTP, whatever publishers do.
    """

    def __init__(self, max_descriptors: int | None = None) -> None:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._max_descriptors = limit // _DESCRIPTORS_PART if max_descriptors is None else max_descriptors
        self.descriptors = 0
        """Those in use."""

    def create(self) -> SegmentBuffer:
        """An empty buffer."""
        if self.descriptors >= self._max_descriptors:
            return MemoryBuffer()
        try:
            buffer = MemfdBuffer(self._give_back)
        except OSError:
            return MemoryBuffer()
        self.descriptors += 1
        return buffer

    def _give_back(self) -> None:
        self.descriptors -= 1


def best_store() -> SegmentStore:
    """Shared memory where the system has it, else plain memory."""
    if hasattr(os, "memfd_create"):
        try:
            MemfdBuffer().close()
        except OSError:
            return MemoryStore()
        return MemfdStore()
    return MemoryStore()
