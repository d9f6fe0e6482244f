"""A plain connection: what is kept in memory is sent from there, while more of it is written."""

import socket
from collections.abc import Iterator

import pytest

from penstock.relay.segment import MemoryBuffer, SegmentBuffer
from penstock.serve.connections.transport import PlainTransport
from penstock.serve.sending.memfd import MemfdBuffer


@pytest.fixture(params=[MemoryBuffer, MemfdBuffer])
def kept(request: pytest.FixtureRequest) -> Iterator[SegmentBuffer]:
    buffer: SegmentBuffer = request.param()
    yield buffer
    buffer.close()


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_a_range_is_sent_as_the_peer_takes_it_and_more_can_be_written_meanwhile(
    kept: SegmentBuffer, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    transport = PlainTransport(ours)
    data = bytes(range(256)) * 8000
    kept.append([b"other", data])
    sent, heard = 0, b""
    while sent < len(data):
        took = transport.send_from(kept, 5 + sent, len(data) - sent)
        sent += took
        kept.append([b"more"])
        if not took:
            heard += theirs.recv(1 << 20)
    while len(heard) < len(data):
        heard += theirs.recv(1 << 20)
    assert heard == data


def test_a_peer_that_takes_nothing_is_sent_nothing(
    kept: SegmentBuffer, sockets: tuple[socket.socket, socket.socket]
) -> None:
    transport = PlainTransport(sockets[0])
    kept.append([bytes(4_000_000)])
    while transport.send_from(kept, 0, 4_000_000):
        pass
    assert transport.send_from(kept, 0, 4_000_000) == 0
