"""HTTP for operators: ordinary clients by urllib, the others by raw sockets."""

import asyncio
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from penstock.serve.http.server import HttpLimits, HttpServer, Response
from tests.support.cuts import by_size
from tests.support.rtmp_driver import LOOPBACK

BIG = b"x" * 20_000_000


async def hello() -> Response:
    return Response(HTTPStatus.OK, b"hello\n")


async def broken() -> Response:
    raise ZeroDivisionError


async def big() -> Response:
    return Response(HTTPStatus.OK, BIG, "application/octet-stream")


ROUTES = {"/hello": hello, "/broken": broken, "/big": big}


@contextmanager
def serving(limits: HttpLimits | None = None) -> Iterator[int]:
    server = HttpServer(ROUTES, limits)
    port = server.start(LOOPBACK, 0)
    try:
        yield port
    finally:
        server.stop()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as port:
        yield port


def connect(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), 10)


def exchange(port: int, *pieces: bytes) -> bytes:
    """Send these pieces and read until the server closes."""
    with connect(port) as client:
        for piece in pieces:
            client.sendall(piece)
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    received = b""
    while data := client.recv(1 << 20):
        received += data
    return received


def received_until_the_end(client: socket.socket) -> int:
    size = 0
    try:
        while data := client.recv(1 << 20):
            size += len(data)
    except ConnectionResetError:
        pass
    return size


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_an_answer_is_whole_and_not_to_be_kept(port: int) -> None:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/hello?x=1", timeout=10) as response:
        assert (response.status, response.read()) == (200, b"hello\n")
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["Date"].endswith("GMT")


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/nothing", "GET", 404), ("/hello", "DELETE", 405), ("/broken", "GET", 500), ("/hello/", "GET", 404)],
)
def test_what_cannot_be_answered_says_why(port: int, path: str, method: str, status: int) -> None:
    request = urllib.request.Request(f"http://{LOOPBACK}:{port}{path}", method=method)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value as error:
        assert error.code == status
        assert error.read() == f"{HTTPStatus(status).phrase}\n".encode()
        assert error.headers["Allow"] == ("GET, HEAD" if status == 405 else None)


def test_head_has_the_length_and_no_body(port: int) -> None:
    answer = exchange(port, b"HEAD /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head, body = answer.split(b"\r\n\r\n")
    assert b"Content-Length: 6" in head
    assert body == b""


@pytest.mark.parametrize("cut", [1, 7, 128])
def test_a_request_is_the_same_however_it_is_cut(port: int, cut: int) -> None:
    request = b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert exchange(port, *by_size(request, cut)).endswith(b"\r\n\r\nhello\n")


def test_a_connection_serves_one_request_after_the_other(port: int) -> None:
    request = b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with connect(port) as client:
        client.sendall(request)
        first = client.recv(1 << 16)
        client.sendall(request + request + last)
        rest = read_all(client)
    assert first.count(b"hello\n") == 1
    assert rest.count(b"HTTP/1.1 200 OK") == 2
    assert rest.count(b"HTTP/1.1 404 Not Found") == 1


def test_http_1_0_is_served_and_closed(port: int) -> None:
    assert exchange(port, b"GET /hello HTTP/1.0\r\n\r\n").endswith(b"hello\n")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
        b"GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345",
        b"GET /hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_bodies_are_refused_without_being_waited_for(port: int, request_bytes: bytes) -> None:
    answer = exchange(port, request_bytes)
    assert status_of(answer) == (405 if request_bytes.startswith(b"POST") else 413)
    assert b"Connection: close" in answer


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000, 431),
    ],
)
def test_what_is_no_http_is_refused(port: int, request_bytes: bytes, status: int) -> None:
    assert status_of(exchange(port, request_bytes)) == status


def test_a_client_that_says_nothing_or_too_little_is_closed_in_time() -> None:
    with serving(HttpLimits(request_s=0.1)) as port:
        started_at = time.monotonic()
        assert exchange(port) == b""
        assert exchange(port, b"GET /hello HTTP/1.1\r\nHo") == b""
        assert 0.2 <= time.monotonic() - started_at < 5


def test_a_client_that_drips_its_request_is_closed_in_time() -> None:
    with serving(HttpLimits(request_s=0.2)) as port, connect(port) as client:
        started_at = time.monotonic()
        while is_open(client):
            client.send(b"G")
            time.sleep(0.02)
            assert time.monotonic() - started_at < 5


def test_a_client_that_does_not_read_its_answer_is_closed_in_time() -> None:
    with serving(HttpLimits(send_s=0.2)) as port, connect(port) as client:
        client.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.6)
        assert received_until_the_end(client) < len(BIG)


def test_a_big_answer_comes_whole(port: int) -> None:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/big", timeout=10) as response:
        assert response.read() == BIG


def test_idle_clients_cannot_lock_others_out() -> None:
    with serving(HttpLimits(max_connections=4)) as port:
        idle = [connect(port) for _ in range(20)]
        try:
            assert exchange(port, b"GET /hello HTTP/1.0\r\n\r\n").endswith(b"hello\n")
            open_ones = [client for client in idle if is_open(client)]
            assert len(open_ones) <= 4
            assert open_ones == idle[-len(open_ones) :]
        finally:
            for client in idle:
                client.close()


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_a_flood_is_taken_up_at_a_bounded_rate() -> None:
    limits = HttpLimits(max_turns_per_s=100, burst_turns=10)
    request = b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(limits) as port, connect(port) as client:
        started_at = time.monotonic()
        client.sendall(request * 40)
        received = b""
        while received.count(b"hello\n") < 40:
            received += client.recv(1 << 16)
        assert time.monotonic() - started_at >= (40 - 10) / 100


def test_stopping_closes_everything() -> None:
    server = HttpServer(ROUTES)
    port = server.start(LOOPBACK, 0)
    with connect(port) as client:
        client.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(1 << 16).endswith(b"hello\n")
        server.stop()
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    server.stop()


def test_an_address_that_is_taken_is_told_at_the_start(port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        HttpServer(ROUTES).start(LOOPBACK, port)


def test_clients_are_served_while_another_is_slow() -> None:
    async def slow() -> Response:
        await asyncio.sleep(0.3)
        return Response(HTTPStatus.OK, b"slow\n")

    server = HttpServer({**ROUTES, "/slow": slow}, HttpLimits(max_connections=1))
    port = server.start(LOOPBACK, 0)
    try:
        with connect(port) as client:
            client.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
            # Nobody is idle, so the next one waits for the first to be done.
            time.sleep(0.05)
            assert exchange(port, b"GET /hello HTTP/1.0\r\n\r\n").endswith(b"hello\n")
            assert read_all(client).endswith(b"slow\n")
    finally:
        server.stop()


def test_ipv6_is_served_where_it_is_there() -> None:
    server = HttpServer(ROUTES)
    try:
        port = server.start("::1", 0)
    except OSError:
        pytest.skip("no IPv6 on this machine")
    try:
        with urllib.request.urlopen(f"http://[::1]:{port}/hello", timeout=10) as response:
            assert response.status == 200
    finally:
        server.stop()
