"""A port of web's own, with real sockets: who is served there, who is not, and for how long."""

import asyncio
import errno
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.certificates import ReloadableTls
from penstock.web.asgi import App
from penstock.web.exchanges import HttpLimits
from penstock.web.http_connections import HttpConnections
from penstock.web.own_port import OwnPort
from penstock.web.site import Site
from tests.support.rtmp_driver import LOOPBACK
from tests.support.tls import Files, trusting
from tests.web.test_http_connections import BIG, GET_HELLO, ROUTES, received_until_the_end, wait_until_closed, who_asks
from tests.web.web_process import read_all, status_of

Address = tuple[str, int]


@contextmanager
def own_port(
    limits: HttpLimits | None = None,
    tls: ReloadableTls | None = None,
    app: App | None = None,
    listener: socket.socket | None = None,
) -> Iterator[Address]:
    listener = listener or socket.create_server((LOOPBACK, 0))
    address = listener.getsockname()

    async def serve() -> None:
        connections = HttpConnections(app or Site(ROUTES), time.monotonic, limits)
        served = asyncio.create_task(connections.run())
        task = asyncio.create_task(OwnPort(listener, connections, tls).run())
        made.append(task)
        is_up.set()
        await asyncio.wait([task])
        served.cancel()
        await asyncio.wait([served])
        # The ends of connections are told in the next rounds.
        await asyncio.sleep(0.05)

    made: list[asyncio.Task[None]] = []
    is_up = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_up.wait(10)
    try:
        yield address
    finally:
        made[0].get_loop().call_soon_threadsafe(made[0].cancel)
        thread.join(10)
        assert not thread.is_alive()


def ask(address: Address, request: bytes = GET_HELLO) -> bytes:
    with socket.create_connection(address, 10) as client:
        client.sendall(request)
        return read_all(client)


def ask_tls(address: Address, files: Files) -> bytes:
    with (
        socket.create_connection(address, 10) as plain,
        trusting(files.authority).wrap_socket(plain, server_hostname="localhost") as client,
    ):
        client.sendall(GET_HELLO)
        return read_all(client)


def serial_of(address: Address, files: Files) -> str:
    with (
        socket.create_connection(address, 10) as plain,
        trusting(files.authority).wrap_socket(plain, server_hostname="localhost") as client,
    ):
        found = client.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def test_a_request_is_answered_and_the_connection_ends_with_it() -> None:
    with own_port() as address:
        head, body = ask(address).lower().split(b"\r\n\r\n")
    assert body == b"hello\n"
    assert head.count(b"\r\ndate:") == head.count(b"\r\nconnection: close") == 1
    assert b"uvicorn" not in head


def test_applications_see_the_client_as_it_is() -> None:
    with own_port(app=who_asks) as address, socket.create_connection(address, 10) as client:
        client.sendall(GET_HELLO)
        told = json.loads(read_all(client).split(b"\r\n\r\n")[1])
        assert told == [list(client.getsockname()), "http"]


def test_under_tls_they_see_that_too(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)
    with own_port(tls=ReloadableTls(files.cert, files.key, "http"), app=who_asks) as address:
        assert json.loads(ask_tls(address, files).split(b"\r\n\r\n")[1])[1] == "https"


def test_a_head_that_is_too_long_is_refused() -> None:
    with own_port() as address:
        assert status_of(ask(address, b"GET / HTTP/1.1\r\nX: " + b"x" * 17_000)) == 400


@pytest.mark.parametrize("sent", [b"", b"GET /hello HTTP/1.1\r\nHo"])
def test_a_client_that_says_nothing_or_too_little_is_closed_in_time(sent: bytes) -> None:
    with own_port(HttpLimits(request_s=0.2)) as address, socket.create_connection(address, 10) as client:
        client.sendall(sent)
        started_at = time.monotonic()
        received_until_the_end(client)
        assert 0.1 <= time.monotonic() - started_at < 5


def test_a_client_that_does_not_read_its_answer_is_closed_in_time() -> None:
    with own_port(HttpLimits(answer_s=0.2)) as address, socket.create_connection(address, 10) as client:
        client.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.8)
        assert received_until_the_end(client) < len(BIG)


def test_idle_clients_cannot_lock_others_out() -> None:
    with own_port(HttpLimits(max_connections=4)) as address:
        idle = [socket.create_connection(address, 10) for _ in range(20)]
        assert ask(address).endswith(b"hello\n")
        for client in idle[:16]:
            wait_until_closed(client)
        for client in idle:
            client.close()


def test_where_all_are_being_answered_the_next_is_turned_away() -> None:
    with own_port(HttpLimits(max_connections=1)) as address, socket.create_connection(address, 10) as greedy:
        greedy.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        greedy.recv(1)
        with socket.create_connection(address, 10) as client:
            wait_until_closed(client)
        assert received_until_the_end(greedy) >= len(BIG)


def test_more_than_may_come_in_a_second_are_turned_away() -> None:
    with own_port(HttpLimits(max_new_per_s=1.0, burst=3.0)) as address:
        clients = [socket.create_connection(address, 10) for _ in range(10)]
        for client in clients[3:]:
            wait_until_closed(client)
        for client in clients[:3]:
            client.sendall(GET_HELLO)
            assert read_all(client).endswith(b"hello\n")
        for client in clients:
            client.close()


def test_under_tls_it_is_the_same(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)
    with own_port(tls=ReloadableTls(files.cert, files.key, "http")) as address:
        assert ask_tls(address, files).endswith(b"hello\n")


def test_a_handshake_that_does_not_come_is_ended_in_time_and_locks_nobody_out(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)
    limits = HttpLimits(max_connections=4, request_s=1.0)
    with own_port(limits, ReloadableTls(files.cert, files.key, "http")) as address:
        silent = [socket.create_connection(address, 10) for _ in range(20)]
        assert ask_tls(address, files).endswith(b"hello\n")
        for client in silent:
            wait_until_closed(client)
            client.close()


def test_a_certificate_is_reloaded_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)
    tls = ReloadableTls(files.cert, files.key, "http")
    with own_port(tls=tls) as address:
        first = serial_of(address, files)
        old_key = files.key.read_bytes()
        files.issue()
        tls.reload()
        second = serial_of(address, files)
        assert first != second
        files.issue()
        files.key.write_bytes(old_key)
        tls.reload()
        assert serial_of(address, files) == second
        files.cert.unlink()
        tls.reload()
        assert serial_of(address, files) == second


def test_a_handshake_that_fails_costs_nobody_else_anything(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)
    with own_port(HttpLimits(max_connections=1), ReloadableTls(files.cert, files.key, "http")) as address:
        with socket.create_connection(address, 10) as client:
            client.sendall(GET_HELLO)
            wait_until_closed(client)
        assert ask_tls(address, files).endswith(b"hello\n")


def test_it_goes_on_when_it_could_not_accept_for_a_moment() -> None:
    class Exhausted(socket.socket):
        failures = 1

        def accept(self) -> tuple[socket.socket, Any]:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    listener = Exhausted()
    listener.bind((LOOPBACK, 0))
    listener.listen()
    with own_port(listener=listener) as address:
        assert ask(address).endswith(b"hello\n")
