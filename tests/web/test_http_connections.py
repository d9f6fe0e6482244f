"""Connections over HTTP with small bounds: the slow, the idle, the greedy, and everybody else beside them."""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from penstock.web.asgi import Receive, Scope, Send
from penstock.web.exchanges import HttpLimits, Pace
from penstock.web.site import Answer
from tests.support.rtmp_driver import LOOPBACK
from tests.web.serving import serving
from tests.web.web_process import read_all, status_of

BIG = b"x" * 20_000_000
GET_HELLO = b"GET /hello HTTP/1.0\r\n\r\n"


async def hello() -> Answer:
    return Answer(HTTPStatus.OK, b"hello\n")


async def broken() -> Answer:
    raise ZeroDivisionError


async def big() -> Answer:
    return Answer(HTTPStatus.OK, BIG, "application/octet-stream")


ROUTES: dict[str, Callable[[], Awaitable[Answer]]] = {"/hello": hello, "/broken": broken, "/big": big}


async def who_asks(scope: Scope, _receive: Receive, send: Send) -> None:
    """Tells the client how it is seen."""
    body = json.dumps([scope["client"], scope["scheme"]]).encode()
    headers = [(b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def received_until_the_end(client: socket.socket) -> int:
    size = 0
    try:
        while data := client.recv(1 << 20):
            size += len(data)
    except ConnectionResetError:
        pass
    return size


def wait_until_closed(client: socket.socket) -> None:
    ends_at = time.monotonic() + 5
    while is_open(client):
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def test_an_answer_ends_the_connection_even_if_the_client_would_go_on() -> None:
    request = b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"
    with serving(ROUTES) as served:
        answer = served.exchange(request + request)
    assert answer.count(b"hello\n") == 1
    assert b"\r\nconnection: close\r\n" in answer


def test_a_handler_that_fails_is_an_answer_too() -> None:
    with serving(ROUTES) as served:
        answer = served.exchange(b"GET /broken HTTP/1.0\r\n\r\n")
    assert (status_of(answer), answer.endswith(b"\r\n\r\nInternal Server Error\n")) == (500, True)


def test_a_big_answer_comes_whole() -> None:
    with serving(ROUTES) as served:
        assert served.exchange(b"GET /big HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\n" + BIG)


@pytest.mark.parametrize("sent", [b"", b"GET /hello HTTP/1.1\r\nHo"])
def test_a_client_that_says_nothing_or_too_little_is_closed_in_time(sent: bytes) -> None:
    with serving(ROUTES, HttpLimits(request_s=0.2)) as served, served.connect() as client:
        client.sendall(sent)
        started_at = time.monotonic()
        received_until_the_end(client)
        assert 0.1 <= time.monotonic() - started_at < 5


def test_a_client_that_drips_its_request_is_closed_in_time() -> None:
    with serving(ROUTES, HttpLimits(request_s=0.2)) as served, served.connect() as client:
        started_at = time.monotonic()
        while is_open(client):
            client.send(b"G")
            time.sleep(0.02)
            assert time.monotonic() - started_at < 5


def test_a_client_that_does_not_read_its_answer_is_closed_in_time() -> None:
    with serving(ROUTES, HttpLimits(answer_s=0.2)) as served, served.connect() as client:
        client.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.8)
        assert received_until_the_end(client) < len(BIG)


def test_idle_clients_cannot_lock_others_out() -> None:
    with serving(ROUTES, HttpLimits(max_connections=4)) as served:
        idle = [served.connect() for _ in range(20)]
        try:
            assert served.exchange(GET_HELLO).endswith(b"hello\n")
            open_ones = [client for client in idle if is_open(client)]
            assert 0 < len(open_ones) <= 4
            assert open_ones == idle[-len(open_ones) :]
        finally:
            for client in idle:
                client.close()


def test_where_everybody_is_busy_newcomers_are_told_to_come_back() -> None:
    async def slow() -> Answer:
        await asyncio.sleep(0.5)
        return Answer(HTTPStatus.OK, b"slow\n")

    with (
        serving({**ROUTES, "/slow": slow}, HttpLimits(max_connections=1)) as served,
        served.connect() as client,
    ):
        client.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
        time.sleep(0.1)
        refusal = served.exchange(GET_HELLO)
        assert (status_of(refusal), b"\r\nRetry-After: 1\r\n" in refusal) == (503, True)
        assert read_all(client).endswith(b"slow\n")
        assert served.exchange(GET_HELLO).endswith(b"hello\n")


def test_a_flood_is_taken_up_at_a_bounded_rate() -> None:
    with serving(ROUTES, HttpLimits(max_new_per_s=100, burst=10, max_connections=100)) as served:
        started_at = time.monotonic()
        clients = [served.connect() for _ in range(40)]
        for client in clients:
            client.sendall(GET_HELLO)
        assert [read_all(client)[-6:] for client in clients] == [b"hello\n"] * 40
        assert time.monotonic() - started_at >= (40 - 10) / 100
        for client in clients:
            client.close()


def test_more_than_may_wait_are_told_to_come_back() -> None:
    with serving(ROUTES, HttpLimits(max_new_per_s=0.01, burst=1, max_waiting=3)) as served:
        clients = []
        for _ in range(10):
            client = served.connect()
            client.sendall(GET_HELLO)
            clients.append(client)
        assert status_of(read_all(clients[-1])) == 503
        for client in clients:
            client.close()


def test_turns_are_given_out_at_a_rate_after_a_burst() -> None:
    pace = Pace(per_s=10, burst=3)
    waits = [pace.wait_s(1000.0) for _ in range(5)]
    assert waits == pytest.approx([0, 0, 0, 0.1, 0.2])
    assert pace.wait_s(1010.0) == 0


def test_stopping_closes_everything() -> None:
    with serving(ROUTES) as served:
        client = served.connect()
        time.sleep(0.1)
        assert is_open(client)
    with client:
        wait_until_closed(client)


def test_clients_that_leave_are_forgotten() -> None:
    with serving(ROUTES) as served:
        for _ in range(5):
            served.connect().close()
            with served.connect() as client:
                client.sendall(b"GET /big HTTP/1.0\r\n\r\n")
        ends_at = time.monotonic() + 5
        while not served.connections.is_idle:
            assert time.monotonic() < ends_at
            time.sleep(0.02)


def asked_by(answer: bytes) -> list[object]:
    found = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    assert isinstance(found, list)
    return found


def test_the_application_sees_who_asks() -> None:
    request = b"GET / HTTP/1.0\r\nX-Forwarded-For: 198.51.100.9\r\nX-Forwarded-Proto: https\r\n\r\n"
    with serving(app=who_asks) as served:
        with served.connect() as client:
            port = client.getsockname()[1]
            client.sendall(request)
            assert asked_by(read_all(client)) == [[LOOPBACK, port], "http"]
        assert asked_by(served.exchange_by_pair(request, "203.0.113.7:5000", "https")) == [
            ["203.0.113.7", 5000],
            "https",
        ]
        assert asked_by(served.exchange_by_pair(request, "", "https")) == [None, "https"]


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "seen"),
    [
        ("10.0.0.5:1000", "198.51.100.9", ["198.51.100.9", "https"]),
        ("10.0.0.5:1000", "127.0.0.1, 198.51.100.9", ["198.51.100.9", "https"]),
        ("10.0.0.5:1000", "198.51.100.9, 10.0.0.6", ["198.51.100.9", "https"]),
        ("[::ffff:10.0.0.5]:1000", "198.51.100.9", ["198.51.100.9", "https"]),
        ("203.0.113.7:1000", "127.0.0.1", ["203.0.113.7", "http"]),
        ("", "127.0.0.1", [None, "http"]),
    ],
    ids=["proxy", "forged part", "two proxies", "IPv4 in IPv6", "stranger", "unknown"],
)
def test_proxies_are_believed_if_they_are_trusted(peer: str, forwarded_for: str, seen: list[object]) -> None:
    request = f"GET / HTTP/1.0\r\nX-Forwarded-For: {forwarded_for}\r\nX-Forwarded-Proto: https\r\n\r\n"
    trusting = ProxyHeadersMiddleware(who_asks, ["10.0.0.0/8"])  # type: ignore[arg-type]
    with serving(app=trusting) as served:  # type: ignore[arg-type]
        client, scheme = asked_by(served.exchange_by_pair(request.encode(), peer, "http"))
    assert [client[0] if isinstance(client, list) else client, scheme] == seen
