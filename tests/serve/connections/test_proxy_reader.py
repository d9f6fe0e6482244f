"""Connections behind a proxy: real sockets, and a loop whose clock the test moves."""

import select
import socket
from collections.abc import Iterator

import pytest

from penstock.serve.connections.proxy_reader import ProxyReader
from penstock.serve.reactor import Timer
from tests.protocol.test_proxy_header import SENT_BY_HAPROXY
from tests.serve.fakes import FakeLoop
from tests.support.cuts import all_cuts

V1, V1_ADDRESS = SENT_BY_HAPROXY["haproxy v1 IPv4"]
V2, V2_ADDRESS = SENT_BY_HAPROXY["haproxy v2 with more"]
BEHIND = b"\x03" + bytes(40)


class Stage:
    """One connection of a proxy, and what is called back."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.reader = ProxyReader(self.loop)
        self.proxy, self.connection = socket.socketpair()
        self.connection.setblocking(False)
        self.descriptor = self.connection.fileno()
        self.addresses: list[str | None] = []
        self.failures: list[str] = []
        self.reader.read(self.connection, 5.0, on_address=self.addresses.append, on_failed=self.failures.append)

    def look(self) -> int:
        """Call back as long as the socket is readable, as the loop does. How often that was."""
        times = 0
        while self.reader.waiting and select.select([self.connection], [], [], 0)[0]:
            self.loop._turns[self.descriptor].callback(0)
            times += 1
            assert times < 10, "the loop would spin"
        return times

    def send(self, data: bytes) -> int:
        self.proxy.sendall(data)
        return self.look()


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.reader.close()
    made.proxy.close()
    made.connection.close()


@pytest.mark.parametrize(("header", "address"), [(V1, V1_ADDRESS), (V2, V2_ADDRESS)], ids=["v1", "v2"])
@pytest.mark.parametrize("cut", range(len(all_cuts(V2))))
def test_however_it_is_cut_the_address_is_told_and_nothing_behind_it_is_taken(
    cut: int, header: bytes, address: str, stage: Stage
) -> None:
    _, pieces = all_cuts(header + BEHIND)[cut]
    for piece in pieces:
        stage.send(piece)
    assert (stage.addresses, stage.failures, stage.reader.waiting) == ([address], [], 0)
    assert stage.connection.recv(4096) == BEHIND
    assert stage.descriptor not in stage.loop.interest


def test_half_a_header_wakes_the_loop_once(stage: Stage) -> None:
    assert stage.send(V2[:20]) == 1
    assert stage.look() == 0
    assert (stage.addresses, stage.failures) == ([], [])


def test_a_proxy_that_speaks_for_itself_names_nobody(stage: Stage) -> None:
    stage.send(SENT_BY_HAPROXY["haproxy health check"][0])
    assert stage.addresses == [None]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x03" + bytes(1536), "proxy: no header begins with 03 00 00 00 00 00 00 00 00 00 00 00"),
        (V2[:12] + b"\x31\x11\x00\x0c", "proxy: version and command 0x31, not 0x20 or 0x21"),
    ],
)
def test_what_is_no_header_costs_the_connection(data: bytes, reason: str, stage: Stage) -> None:
    stage.send(data)
    assert (stage.failures, stage.addresses) == ([reason], [])
    assert stage.connection.fileno() == -1


def test_a_header_that_does_not_come_in_time_costs_the_connection(stage: Stage) -> None:
    stage.send(V1[:-1])
    stage.loop.advance(4.9)
    assert stage.failures == []
    stage.loop.advance(0.2)
    assert stage.failures == ["no PROXY header within 5 s"]
    assert stage.connection.fileno() == -1


def test_nothing_is_told_twice(stage: Stage) -> None:
    stage.send(V1)
    stage.loop.advance(10.0)
    stage.reader.close()
    assert (stage.addresses, stage.failures) == ([V1_ADDRESS], [])
    assert stage.connection.fileno() == stage.descriptor


def test_a_proxy_that_leaves_before_the_end_is_told(stage: Stage) -> None:
    stage.proxy.sendall(V1[:10])
    stage.proxy.shutdown(socket.SHUT_WR)
    stage.look()
    assert stage.failures == ["closed before its PROXY header was whole"]


def test_a_connection_that_was_reset_is_told() -> None:
    stage = Stage()
    stage.connection.sendall(b"unread")
    stage.proxy.close()
    stage.look()
    assert stage.failures == ["Connection reset by peer"]


def test_whoever_waits_when_the_server_ends_is_told(stage: Stage) -> None:
    stage.reader.close()
    assert stage.failures == ["server shut down"]
    assert (stage.reader.waiting, stage.connection.fileno()) == (0, -1)


def test_a_deadline_that_is_over_keeps_nothing(stage: Stage) -> None:
    (deadline,) = [timer for *_, timer in stage.loop._timers]
    assert isinstance(deadline, Timer)
    stage.send(V1)
    assert deadline.callback is None
