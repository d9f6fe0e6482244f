"""A viewer over HTTP: what is said to it, and when."""

import pytest

from penstock.errors import ProtocolViolation
from penstock.serve.connections.http_viewer import HttpViewer, Spoken
from penstock.serve.connections.websocket import ViewerFrames
from penstock.serve.reactor import READ
from tests.serve.fakes import FakeLoop, FakeTransport

PING = bytes.fromhex("89 84 00000000") + b"abcd"
PONG = bytes.fromhex("8a 04") + b"abcd"


class Owner:
    def on_violation(self, connection: HttpViewer, violation: ProtocolViolation) -> None:
        connection.close(str(violation))

    def on_bug(self, connection: HttpViewer, error: Exception) -> None:
        raise error

    def play_lost(self, connection: HttpViewer, stream_id: int, reason: str) -> None:
        """It plays nothing."""

    def on_closed(self, connection: HttpViewer, reason: str) -> None:
        """Nobody keeps it."""


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def transport(loop: FakeLoop) -> FakeTransport:
    return loop.new_transport()


def viewer(loop: FakeLoop, transport: FakeTransport) -> HttpViewer:
    return HttpViewer(
        "1",
        transport,
        "192.0.2.9:1000",
        app="live",
        client="",
        protocol="ws-flv",
        spoken=Spoken(lambda: b"HEAD", lambda _code: b"NO"),
        loop=loop,
        owner=Owner(),
        on_gone=lambda: None,
        frames=ViewerFrames(),
    )


def test_a_ping_is_answered_behind_the_head_of_the_answer_and_never_before(
    loop: FakeLoop, transport: FakeTransport
) -> None:
    on = viewer(loop, transport)
    on.receive(PING)
    on.tell_play_begins(1)
    on.request_turn()
    loop.settle()
    assert transport.output == b"HEAD"
    transport.feed(PING)
    loop._turns[transport.descriptor].callback(READ)
    loop.settle()
    assert transport.output == b"HEAD" + PONG
