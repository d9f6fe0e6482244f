"""Segments in shared memory: a memfd each, so that the kernel can send from them without a copy through Python."""

import os
from collections.abc import Sequence

from penstock.relay.segment import MemoryBuffer, MemoryStore, SegmentBuffer, SegmentStore

_MAX_PIECES = 1000
"""The kernel takes at most 1024 pieces in one call."""


class MemfdBuffer:
    """One memfd, written at its end and never changed."""

    __slots__ = ("_descriptor", "_size")

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("penstock-log", os.MFD_CLOEXEC)
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

    def close(self) -> None:
        """Give the memory back. What the kernel still has to send of it stays until it is sent."""
        os.close(self._descriptor)


class MemfdStore:
    """Segments in shared memory, and in plain memory when the process is out of descriptors: a stream goes on."""

    def create(self) -> SegmentBuffer:
        """An empty buffer."""
        try:
            return MemfdBuffer()
        except OSError:
            return MemoryBuffer()


def best_store() -> SegmentStore:
    """Shared memory where the system has it, else plain memory."""
    if hasattr(os, "memfd_create"):
        try:
            MemfdBuffer().close()
        except OSError:
            return MemoryStore()
        return MemfdStore()
    return MemoryStore()
