"""Bytes between a client under TLS and a pair of sockets: all of them, in order, and never many at once."""

import socket
import ssl
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from penstock.certificates import load_tls
from penstock.control.messages import HttpConnection
from penstock.serve.connections.tls import TlsTransport
from penstock.serve.connections.tls_acceptor import TlsAcceptor
from penstock.serve.http.tls_pump import IDLE_S, RECEIVE_BYTES, TlsPump
from penstock.serve.reactor import READ, WRITE, Reactor
from tests.serve.fakes import FakeLoop, FakeTransport
from tests.serve.http.front_stage import new_front
from tests.support.rtmp_driver import LOOPBACK
from tests.support.tls import Files, trusting
from tests.web.web_process import Web, send_message, web_process


class Pumped:
    """A pump between a transport of the test and a pair of real sockets, of which the test has web's end."""

    def __init__(self, first_bytes: bytes = b"first ") -> None:
        self.loop = FakeLoop()
        self.client: FakeTransport = self.loop.new_transport(can_send_files=False)
        ours, self.web = socket.socketpair()
        self.web.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.pair = ours.fileno()
        self.ends = 0
        self.pump = TlsPump(self.loop, self.client, ours, first_bytes, self._on_end)
        self.pump.start()

    def _on_end(self) -> None:
        self.ends += 1

    def step(self) -> None:
        """What the loop does when anything is ready, whatever it is."""
        for turn in list(self.loop._turns.values()):
            turn.callback(READ | WRITE)

    @property
    def client_interest(self) -> int:
        return self.loop.interest.get(self.client.descriptor, 0)

    @property
    def pair_interest(self) -> int:
        return self.loop.interest.get(self.pair, 0)

    def heard_by_web(self) -> bytes:
        heard = b""
        try:
            while data := self.web.recv(1 << 16):
                heard += data
        except BlockingIOError:
            pass
        return heard


@pytest.fixture
def pumped() -> Iterator[Pumped]:
    pumped = Pumped()
    yield pumped
    pumped.pump.close()
    pumped.web.close()


def test_what_came_before_comes_first(pumped: Pumped) -> None:
    pumped.client.feed(b"second")
    pumped.step()
    assert pumped.heard_by_web() == b"first second"


def test_answers_go_to_the_client(pumped: Pumped) -> None:
    pumped.web.send(b"answer")
    pumped.step()
    assert bytes(pumped.client.output) == b"answer"
    assert pumped.client_interest == pumped.pair_interest == READ


def test_a_web_process_that_does_not_read_holds_the_client_back(pumped: Pumped) -> None:
    pumped.client.feed(b"x" * 1_000_000)
    for _ in range(200):
        pumped.step()
    assert pumped.client_interest == 0, "it is waited for although nothing can be done with what it sends"
    assert pumped.pair_interest & WRITE
    assert pumped.client.unread_bytes > 1_000_000 - 10 * RECEIVE_BYTES
    heard = b""
    while pumped.client.unread_bytes or pumped.pair_interest & WRITE:
        heard += pumped.heard_by_web()
        pumped.step()
    assert heard + pumped.heard_by_web() == b"first " + b"x" * 1_000_000


def test_a_client_that_does_not_read_holds_the_web_process_back(pumped: Pumped) -> None:
    pumped.client.room_bytes = 1000
    pumped.web.send(b"y" * 100_000)
    for _ in range(200):
        pumped.step()
    assert len(pumped.client.output) == 1000
    assert (pumped.client_interest, pumped.pair_interest) == (READ | WRITE, 0)
    pumped.client.room_bytes = float("inf")
    pumped.web.setblocking(True)
    pumped.step()
    pumped.step()
    assert pumped.client_interest == READ
    assert bytes(pumped.client.output).strip(b"y") == b""


def test_what_tls_holds_back_is_waited_for(pumped: Pumped) -> None:
    pumped.client.holds_back = True
    pumped.step()
    assert pumped.client_interest == READ | WRITE
    pumped.client.holds_back = False
    pumped.step()
    assert pumped.client_interest == READ


def test_the_clients_end_is_passed_on_and_the_answer_still_comes(pumped: Pumped) -> None:
    pumped.client.is_ended = True
    pumped.step()
    assert pumped.web.recv(100) == b"first "
    assert pumped.web.recv(100) == b""
    assert pumped.client_interest == 0
    pumped.web.send(b"answer")
    pumped.step()
    assert bytes(pumped.client.output) == b"answer"
    assert pumped.ends == 0


def test_the_end_of_the_web_process_is_the_end_behind_its_last_byte(pumped: Pumped) -> None:
    pumped.client.room_bytes = 3
    pumped.web.send(b"answer")
    pumped.web.close()
    pumped.step()
    assert not pumped.client.is_closed
    pumped.client.room_bytes = 100
    pumped.client.holds_back = True
    for _ in range(3):
        pumped.step()
    assert (bytes(pumped.client.output), pumped.client.is_closed) == (b"answer", False)
    pumped.client.holds_back = False
    pumped.step()
    assert (pumped.client.is_closed, pumped.ends, pumped.loop.interest) == (True, 1, {})


def test_an_answer_before_the_request_is_whole_still_comes(pumped: Pumped) -> None:
    pumped.client.feed(b"x" * 100_000)
    pumped.step()
    pumped.web.send(b"413")
    pumped.web.close()
    for _ in range(10):
        pumped.step()
    assert (bytes(pumped.client.output), pumped.ends) == (b"413", 1)


def test_a_client_that_is_lost_is_the_end(pumped: Pumped) -> None:
    pumped.client.fault = OSError("TLS: bad record mac")
    pumped.step()
    assert (pumped.client.is_closed, pumped.ends) == (True, 1)
    assert pumped.heard_by_web() == b"first "


def test_silence_is_the_end_after_a_minute_from_the_last_byte(pumped: Pumped) -> None:
    pumped.loop.advance(IDLE_S - 1)
    pumped.web.send(b"event")
    pumped.step()
    pumped.loop.advance(IDLE_S - 1)
    assert pumped.ends == 0
    pumped.loop.advance(1.1)
    assert (pumped.ends, pumped.client.is_closed, pumped.loop.next_timer_at) == (1, True, None)


def test_it_can_be_closed_twice(pumped: Pumped) -> None:
    pumped.pump.close()
    pumped.pump.close()
    assert pumped.ends == 1


# With a real client, the real loop and the real web process.


class HttpsWorker:
    """Accepts under TLS in a thread of its own, and hands over to a web process."""

    def __init__(self, web: Web, context: ssl.SSLContext) -> None:
        self.reactor = Reactor(self._on_error)
        self.errors: list[BaseException] = []
        self._web = web
        self._context = context
        self._handover = new_front(self.reactor, self._hand_over)
        self._acceptor = TlsAcceptor(self.reactor.call_from_thread)
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self.reactor.add(self._listener.fileno(), READ, self._accept)
        self._thread = threading.Thread(target=self.reactor.run)
        self._thread.start()

    def _on_error(self, error: BaseException) -> None:
        self.errors.append(error)

    def _accept(self, _events: int) -> None:
        connection, (host, port) = self._listener.accept()
        connection.setblocking(False)

        def on_open(address: str, transport: TlsTransport) -> None:
            self._handover.accept_tls(transport, address)

        self._acceptor.accept(
            connection, self._context, 5.0, on_open=partial(on_open, f"{host}:{port}"), on_failed=lambda _reason: None
        )

    def _hand_over(self, message: HttpConnection, descriptor: int) -> bool:
        send_message(self._web.worker, message, descriptor)
        socket.close(descriptor)
        return True

    def close(self) -> None:
        self.reactor.call_from_thread(self._stop)
        self._thread.join(10)
        self.reactor.close()
        self._listener.close()

    def _stop(self) -> None:
        self._handover.close()
        self._acceptor.close()
        self.reactor.stop()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files.made_in(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def https(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsWorker]:
    with web_process(tmp_path_factory.mktemp("data")) as web:
        web.tell_figures()
        worker = HttpsWorker(web, load_tls(files.cert, files.key))
        yield worker
        worker.close()
        assert worker.errors == []


def ask(https: HttpsWorker, files: Files, request: bytes, most: int = 1 << 16) -> bytes:
    """Over TLS, to the end of the answer. The end is told as TLS wants it, or this fails."""
    raw = socket.create_connection((LOOPBACK, https.port), 10)
    with trusting(files.authority).wrap_socket(raw, server_hostname="localhost") as client:
        client.sendall(request)
        answer = b""
        while data := client.recv(most):
            answer += data
        return answer


@pytest.mark.parametrize("most", [1, 100, 1 << 16])
def test_a_real_client_is_answered_over_tls(https: HttpsWorker, files: Files, most: int) -> None:
    answer = ask(https, files, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", most)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"penstock_connections 0" in answer


def test_a_large_body_over_tls_is_refused_with_an_answer(https: HttpsWorker, files: Files) -> None:
    head = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 150000\r\n\r\n"
    assert ask(https, files, head + b"x" * 150_000).startswith(b"HTTP/1.1 405 ")


def test_clients_that_leave_in_the_middle_cost_nobody_anything(https: HttpsWorker, files: Files) -> None:
    for size in (0, 1, 10):
        raw = socket.create_connection((LOOPBACK, https.port), 10)
        with trusting(files.authority).wrap_socket(raw, server_hostname="localhost") as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\n"[:size])
    assert ask(https, files, b"GET /nothing HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 404 ")
