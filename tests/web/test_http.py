"""HTTP from the real web process: ordinary clients by http.client and urllib, the others by raw sockets."""

import http.client
import socket
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from tests.support.cuts import by_size
from tests.web.web_process import Web, read_all, status_of, web_process

READY = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web_process(tmp_path_factory.mktemp("data")) as web:
        yield web


@pytest.fixture(autouse=True)
def worker(web: Web) -> None:
    """One that has just told its figures."""
    web.tell_figures(connections=3)


class Handed(http.client.HTTPConnection):
    """The standard library's client, on a connection that was handed over."""

    def __init__(self, web: Web) -> None:
        super().__init__("media.example")
        self._web = web

    def connect(self) -> None:
        self.sock = self._web.connect()


def test_an_ordinary_client_is_answered(web: Web) -> None:
    client = Handed(web)
    client.request("GET", "/readyz?x=1")
    response = client.getresponse()
    assert (response.status, response.read()) == (200, b"ready\n")
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Connection"] == "close"
    assert response.headers["Date"].endswith("GMT")
    assert response.headers["Server"] is None


def test_a_client_that_keeps_connections_makes_another_by_itself(web: Web) -> None:
    client = Handed(web)
    for _ in range(3):
        client.request("GET", "/healthz")
        response = client.getresponse()
        assert (response.status, response.read()) == (200, b"ok\n")


@pytest.mark.parametrize(("path", "method", "status"), [("/nothing", "GET", 404), ("/readyz", "DELETE", 405)])
def test_what_cannot_be_answered_says_why(web: Web, path: str, method: str, status: int) -> None:
    client = Handed(web)
    client.request(method, path)
    response = client.getresponse()
    assert (response.status, response.read()) == (status, f"{HTTPStatus(status).phrase}\n".encode())
    assert response.headers["Allow"] == ("GET, HEAD" if status == 405 else None)


def test_head_has_the_length_and_no_body(web: Web) -> None:
    answer = web.exchange(b"HEAD /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
    head, body = answer.split(b"\r\n\r\n")
    assert b"content-length: 6" in head
    assert body == b""


@pytest.mark.parametrize("cut", [1, 7, 128])
def test_a_request_is_the_same_however_it_is_cut(web: Web, cut: int) -> None:
    assert web.exchange(*by_size(READY, cut)).endswith(b"\r\n\r\nready\n")


def test_of_many_requests_at_once_the_first_is_answered(web: Web) -> None:
    answer = web.exchange(READY * 20)
    assert answer.count(b"HTTP/1.1 200 OK") == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /readyz HTTP/1.0\r\n\r\n",
        b"GET http://media.example/readyz HTTP/1.1\r\nHost: media.example\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
    ],
    ids=["1.0", "absolute form", "upgrade", "expect"],
)
def test_unusual_requests_are_served(web: Web, request_bytes: bytes) -> None:
    answer = web.exchange(request_bytes)
    assert (status_of(answer), answer.endswith(b"\r\n\r\nready\n")) == (200, True)


def test_a_websocket_is_refused_where_there_is_none(web: Web) -> None:
    key = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    wish = b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n%b\r\n"
    assert (status_of(web.exchange(wish % key)), status_of(web.exchange(wish % b""))) == (403, 400)


def test_a_client_that_ends_its_side_is_still_answered(web: Web) -> None:
    with web.connect() as client:
        client.sendall(READY)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).endswith(b"\r\n\r\nready\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", 405),
        (b"GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345", 413),
        (b"GET /readyz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"POST /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000, 405),
    ],
    ids=["not sent", "sent", "chunked", "large"],
)
def test_bodies_are_refused_without_being_waited_for(web: Web, request_bytes: bytes, status: int) -> None:
    answer = web.exchange(request_bytes)
    assert status_of(answer) == status
    assert b"connection: close" in answer


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /readyz HTTP/one\r\nHost: x\r\n\r\n",
        b"GET /readyz\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000,
        b"GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    ],
    ids=["TLS", "no host", "two hosts", "no ASCII", "no version", "0.9", "long head", "length", "two lengths"],
)
def test_what_is_no_http_is_refused_and_costs_nobody_else_anything(web: Web, request_bytes: bytes) -> None:
    answer = web.exchange(request_bytes)
    assert status_of(answer) in (400, 413)
    assert web.ask("/readyz") == (200, "ready\n")


def test_behind_tls_the_end_of_a_pair_is_served(web: Web) -> None:
    with web.connect_pair("203.0.113.7:5000") as client:
        client.sendall(READY)
        assert read_all(client).endswith(b"\r\n\r\nready\n")


def test_clients_that_leave_early_or_reset_cost_nobody_anything(web: Web) -> None:
    for number in range(100):
        with web.connect() as client:
            if number % 2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.send(READY[: number % len(READY)])
    web.tell_figures()
    assert web.ask("/healthz") == (200, "ok\n")
