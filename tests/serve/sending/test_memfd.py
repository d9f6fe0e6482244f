"""Segments in shared memory: what was written is there to send, and out of descriptors a stream still goes on."""

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.relay.segment import MemoryBuffer, MemoryStore
from penstock.serve.sending.memfd import MemfdBuffer, MemfdStore, best_store


@contextmanager
def no_descriptors() -> Iterator[None]:
    """The process can open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    fillers = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, hard))
    try:
        while True:
            try:
                fillers.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        for filler in fillers:
            os.close(filler)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def buffer() -> Iterator[MemfdBuffer]:
    made = MemfdBuffer()
    yield made
    made.close()


def test_what_was_written_is_read_back(buffer: MemfdBuffer) -> None:
    buffer.append([b"ab", b"", b"c"])
    buffer.append([b"def"])
    assert buffer.read(0, 100) == b"abcdef"
    assert buffer.read(2, 3) == b"cde"


def test_more_pieces_than_the_kernel_takes_at_once_are_written_in_order(buffer: MemfdBuffer) -> None:
    pieces = [str(number).encode() for number in range(5000)]
    buffer.append([b"head"])
    buffer.append(pieces)
    assert buffer.read(0, 100_000) == b"head" + b"".join(pieces)


def test_the_kernel_sends_from_it_and_goes_on_after_it_was_closed() -> None:
    buffer = MemfdBuffer()
    buffer.append([bytes(10), b"x" * 50_000])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert buffer.descriptor is not None
        sent = os.sendfile(ours.fileno(), buffer.descriptor, 10, 50_000)
        buffer.close()
        ours.close()
        received = b"".join(iter(lambda: theirs.recv(65536), b""))
    assert received == b"x" * sent
    assert sent > 0


def test_a_write_that_failed_half_way_can_be_made_again(buffer: MemfdBuffer) -> None:
    buffer.append([b"first"])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            buffer.append([b"sec", b"ond"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    buffer.append([b"sec", b"ond"])
    assert buffer.read(0, 100) == b"firstsecond"


def test_a_closed_buffer_is_no_descriptor_any_more() -> None:
    buffer = MemfdBuffer()
    descriptor = buffer.descriptor
    assert descriptor is not None
    buffer.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_out_of_descriptors_segments_are_in_plain_memory() -> None:
    store = MemfdStore()
    with no_descriptors():
        spare = store.create()
    assert isinstance(spare, MemoryBuffer)
    ordinary = store.create()
    assert isinstance(ordinary, MemfdBuffer)
    ordinary.close()


def test_shared_memory_is_used_where_the_system_has_it() -> None:
    assert isinstance(best_store(), MemfdStore)
    with no_descriptors():
        assert isinstance(best_store(), MemoryStore)


def test_without_memfd_plain_memory_is_used() -> None:
    program = (
        "import os; del os.memfd_create\n"
        "from penstock.serve.sending.memfd import best_store; print(type(best_store()).__name__)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.strip() == "MemoryStore"
