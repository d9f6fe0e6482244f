"""Connections over HTTP on their way: which wait, which go, and what clients hear where nobody takes them."""

import os
import select
import socket
from collections.abc import Iterator

import pytest

from penstock.control.messages import HttpConnection
from penstock.control.refusals import NOT_FOUND, UNAVAILABLE
from penstock.serve.http import front as front_module
from penstock.serve.http import handover as handover_module
from penstock.serve.reactor import READ
from tests.serve.fakes import FakeLoop, FakeTransport
from tests.serve.http.front_stage import new_front
from tests.support.rtmp_driver import LOOPBACK

ADDRESS = "203.0.113.7:5000"
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


class Worker:
    """The handover with a loop of the test, and a web process that takes what it is given, or is not there."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.has_web = True
        self.taken: list[tuple[HttpConnection, socket.socket]] = []
        self.gone: list[str] = []
        self.handover = new_front(self.loop, self.hand_over)
        self._listener = socket.create_server((LOOPBACK, 0))

    def hand_over(self, message: HttpConnection, descriptor: int) -> bool:
        assert descriptor not in self.loop.interest, "the loop would still be woken for it"
        if self.has_web:
            self.taken.append((message, socket.socket(fileno=descriptor)))
        return self.has_web

    def connect(self, name: str = "") -> tuple[socket.socket, int]:
        """A client, and the descriptor of its connection here."""
        client = socket.create_connection(self._listener.getsockname(), 10)
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        descriptor = connection.fileno()
        self.handover.accept(connection, ADDRESS, lambda: self.gone.append(name))
        return client, descriptor

    def run(self, descriptor: int) -> None:
        """A turn for a connection, as the loop gives it when there is something to read."""
        assert select.select([descriptor], [], [], 10)[0]
        self.loop._turns[descriptor].callback(READ)

    def close(self) -> None:
        self.handover.close()
        self._listener.close()
        for _, connection in self.taken:
            connection.close()


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_connection_with_a_request_goes_unread(worker: Worker) -> None:
    client, descriptor = worker.connect("a")
    assert (worker.taken, worker.loop.interest) == ([], {descriptor: READ})
    client.sendall(REQUEST)
    worker.run(descriptor)
    ((message, connection),) = worker.taken
    assert message == HttpConnection(ADDRESS, "http")
    assert connection.recv(1000) == REQUEST
    assert (worker.gone, worker.loop.interest) == (["a"], {})
    connection.sendall(b"answer")
    assert client.recv(100) == b"answer"
    client.close()


def test_a_client_that_says_nothing_is_closed_after_ten_seconds(worker: Worker) -> None:
    early, early_descriptor = worker.connect("early")
    worker.loop.advance(4.0)
    late, late_descriptor = worker.connect("late")
    worker.loop.advance(5.9)
    assert worker.gone == []
    worker.loop.advance(0.2)
    assert (worker.gone, is_open(early_descriptor), is_open(late_descriptor)) == (["early"], False, True)
    worker.loop.advance(4.0)
    assert worker.gone == ["early", "late"]
    assert worker.loop.next_timer_at is None
    assert (early.recv(1), late.recv(1)) == (b"", b"")
    early.close()
    late.close()


def test_a_client_that_leaves_without_a_word_does_not_go(worker: Worker) -> None:
    client, descriptor = worker.connect("a")
    client.close()
    worker.run(descriptor)
    assert (worker.taken, worker.gone, worker.loop.interest) == ([], ["a"], {})


def test_a_client_that_resets_does_not_go(worker: Worker) -> None:
    client, descriptor = worker.connect("a")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    worker.run(descriptor)
    assert (worker.taken, worker.gone) == ([], ["a"])


def test_a_turn_without_anything_to_read_changes_nothing(worker: Worker) -> None:
    client, descriptor = worker.connect()
    worker.loop._turns[descriptor].callback(READ)
    assert (worker.taken, worker.gone, worker.loop.interest) == ([], [], {descriptor: READ})
    client.close()


def test_of_too_many_the_one_that_has_waited_longest_goes(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_module, "MAX_WAITING", 3)
    clients = [worker.connect(str(number)) for number in range(5)]
    assert worker.gone == ["0", "1"]
    assert [is_open(descriptor) for _, descriptor in clients[2:]] == [True, True, True]
    for client, _ in clients:
        client.close()


def test_of_too_many_one_that_has_asked_and_was_not_read_yet_is_heard_before_it_would_go(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_module, "MAX_WAITING", 1)
    asking, _ = worker.connect("asking")
    asking.sendall(REQUEST)
    silent, _ = worker.connect("silent")
    assert len(worker.taken) == 1
    last, _ = worker.connect("last")
    assert "silent" in worker.gone
    for client in (asking, silent, last):
        client.close()


def test_without_a_web_process_clients_are_told_to_come_back(worker: Worker) -> None:
    worker.has_web = False
    client, descriptor = worker.connect("a")
    client.sendall(REQUEST)
    worker.run(descriptor)
    assert client.recv(1000) == UNAVAILABLE
    assert client.recv(1000) == b""
    assert (worker.gone, is_open(descriptor)) == (["a"], False)
    client.close()


def test_where_web_has_a_port_of_its_own_clients_are_told_that_nothing_is_here(worker: Worker) -> None:
    worker.has_web = False
    worker.handover = new_front(worker.loop, worker.hand_over, NOT_FOUND)
    client, descriptor = worker.connect("a")
    client.sendall(REQUEST)
    worker.run(descriptor)
    assert client.recv(1000) == NOT_FOUND
    client.close()
    assert bytes(accept_tls(worker, REQUEST).output) == NOT_FOUND
    assert worker.gone == ["a", "tls"]
    assert NOT_FOUND == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 10\r\n"
        b"Cache-Control: no-store\r\nConnection: close\r\n\r\nNot Found\n"
    )


def test_the_answer_of_last_resort_is_whole() -> None:
    head, body = UNAVAILABLE.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nRetry-After: 1\r\n" in head
    assert b"\r\nConnection: close" in head
    assert b"\r\nContent-Length: %d\r\n" % len(body) in head


def test_closing_closes_those_that_wait_and_not_those_that_went(worker: Worker) -> None:
    waiting, waiting_descriptor = worker.connect("waits")
    went, went_descriptor = worker.connect("went")
    went.sendall(REQUEST)
    worker.run(went_descriptor)
    worker.handover.close()
    assert (worker.gone, is_open(waiting_descriptor), is_open(went_descriptor)) == (["went", "waits"], False, True)
    assert worker.loop.next_timer_at is None
    waiting.close()
    went.close()


# Under TLS, by a transport of the test.


def accept_tls(worker: Worker, sent: bytes = b"") -> FakeTransport:
    transport = worker.loop.new_transport(can_send_files=False)
    transport.feed(sent)
    worker.handover.accept_tls(transport, ADDRESS, lambda: worker.gone.append("tls"))
    return transport


def test_under_tls_a_pair_goes_with_the_clients_address(worker: Worker) -> None:
    accept_tls(worker, REQUEST)
    ((message, theirs),) = worker.taken
    assert message == HttpConnection(ADDRESS, "https")
    assert theirs.family == socket.AF_UNIX
    assert theirs.recv(1000) == REQUEST
    assert worker.gone == []


def test_under_tls_nothing_goes_before_there_is_a_request(worker: Worker) -> None:
    transport = accept_tls(worker)
    assert (worker.taken, worker.loop.interest) == ([], {transport.descriptor: READ})
    worker.loop.advance(10.1)
    assert (worker.gone, transport.is_closed) == (["tls"], True)


@pytest.mark.parametrize("fault", [None, OSError("TLS: bad record mac")])
def test_under_tls_a_client_that_leaves_or_fails_does_not_go(worker: Worker, fault: OSError | None) -> None:
    transport = accept_tls(worker)
    transport.is_ended = True
    transport.fault = fault
    worker.loop.run_events()
    assert (worker.taken, worker.gone, transport.is_closed) == ([], ["tls"], True)


def test_under_tls_clients_are_told_to_come_back_as_well(worker: Worker) -> None:
    worker.has_web = False
    transport = accept_tls(worker, REQUEST)
    assert (bytes(transport.output), transport.is_closed, worker.gone) == (UNAVAILABLE, True, ["tls"])


def test_under_tls_only_so_many_are_served_at_once(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover_module, "MAX_PUMPS", 1)
    first = accept_tls(worker, REQUEST)
    assert bytes(accept_tls(worker, REQUEST).output) == UNAVAILABLE
    first.fault = OSError("reset")
    first.is_hung_up = True
    worker.loop.run_events()
    assert accept_tls(worker, REQUEST).output == b""


def test_closing_ends_those_under_tls_too(worker: Worker) -> None:
    transport = accept_tls(worker, REQUEST)
    ((_, theirs),) = worker.taken
    worker.handover.close()
    assert (transport.is_closed, theirs.recv(1000), theirs.recv(1)) == (True, REQUEST, b"")
