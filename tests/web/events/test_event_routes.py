"""Events over real HTTP and WebSocket connections."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import pytest
from fastapi import FastAPI
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from penstock.web.asgi import App
from penstock.web.events.batches import Batches
from penstock.web.events.event_log import EventLog
from penstock.web.events.rhythm import Rhythm
from penstock.web.events.routes import router
from penstock.web.events.subscription import EventFeed
from penstock.web.exchanges import HttpLimits
from tests.web.serving import Served, serving


@dataclass
class Site:
    served: Served
    log: EventLog
    rhythm: Rhythm

    def happens(self, kind: str = "play_started", app: str = "live") -> None:
        """In the loop's thread, and done when this returns."""
        before = self.log.newest
        self.served._loop.call_soon_threadsafe(self._append, kind, app)
        while self.log.newest == before:
            time.sleep(0.001)

    def _append(self, kind: str, app: str) -> None:
        is_sample = kind.endswith("_sample")
        self.log.append(kind, app, "main", b'{"app":"%b"}' % app.encode(), 0.0, is_sample=is_sample)
        self.rhythm.happened(is_sample=is_sample)


@contextmanager
def site(limits: HttpLimits | None = None) -> Iterator[Site]:
    log, rhythm = EventLog("b7"), Rhythm()
    app = FastAPI()
    app.include_router(router(EventFeed(Batches(log), rhythm, time.monotonic)), prefix="/api/v1")
    with serving(app=cast("App", app), limits=limits) as served:
        yield Site(served, log, rhythm)


class Stream:
    """A client of server-sent events."""

    def __init__(self, site: Site, query: str = "", *headers: str) -> None:
        self.socket = site.served.connect()
        lines = [f"GET /api/v1/events{query} HTTP/1.1", "Host: x", *headers, "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self._lines = self.socket.makefile("rb")
        self.status = int(self._lines.readline().split()[1])
        self.headers = dict(iter(self._header, None))

    def _header(self) -> tuple[str, str] | None:
        name, _, value = self._lines.readline().decode().strip().partition(": ")
        return (name, value) if name else None

    def block(self) -> dict[str, str]:
        """The next: its fields."""
        fields: dict[str, str] = {}
        while (line := self._line()) != "" or not fields:
            if line and not line.startswith((":", "retry")):
                name, _, fields[name] = line.partition(": ")
        return fields

    def _line(self) -> str:
        # Sizes of chunks are lines of their own, and so are the ends of chunks.
        while True:
            line = self._lines.readline()
            assert line, "it ended"
            if not line.endswith(b"\r\n"):
                return line.decode().rstrip("\n")

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


def test_a_client_hears_what_happens_with_ids_to_come_back_by() -> None:
    with site() as here:
        here.happens()
        stream = Stream(here)
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-store"
        assert stream.block() == {"id": "b7:1"}
        here.happens("play_stopped")
        assert stream.block() == {"id": "b7:2", "event": "play_stopped", "data": '{"app":"live"}'}
        stream.close()


@pytest.mark.parametrize("way", ["header", "query", "both"])
def test_one_that_comes_back_hears_what_it_missed(way: str) -> None:
    query = {"header": "", "query": "?last_event_id=b7:1", "both": "?last_event_id=b7:3"}[way]
    headers = [] if way == "query" else ["Last-Event-ID: b7:1"]
    with site() as here:
        for kind in ("a", "b", "c"):
            here.happens(kind)
        stream = Stream(here, query, *headers)
        assert [stream.block()["event"], stream.block()["event"]] == ["b", "c"]
        stream.close()


def test_one_of_another_boot_is_reset_and_hears_what_comes() -> None:
    with site() as here:
        here.happens("a")
        stream = Stream(here, "", "Last-Event-ID: b6:9")
        assert stream.block() == {"id": "b7:1", "event": "reset", "data": "{}"}
        here.happens("b")
        assert stream.block()["id"] == "b7:2"
        stream.close()


def test_filters_are_parameters_and_samples_come_on_request() -> None:
    with site() as here:
        some = Stream(here, "?app=live&kind=play_*&kind=limit_hit&batch_ms=10")
        everything = Stream(here, "?samples=true&batch_ms=10")
        some.block()
        everything.block()
        for kind, app in (("play_started", "other"), ("stream_sample", "live"), ("limit_hit", "live")):
            here.happens(kind, app)
        assert some.block()["id"] == "b7:3"
        assert [everything.block()["id"] for _ in range(3)] == ["b7:1", "b7:2", "b7:3"]
        some.close()
        everything.close()


def test_events_of_an_interval_are_sent_together() -> None:
    with site() as here:
        stream = Stream(here, "?batch_ms=400")
        stream.block()
        for _ in range(20):
            here.happens()
        came_at = []
        for number in range(1, 21):
            assert stream.block()["id"] == f"b7:{number}"
            came_at.append(time.monotonic())
        waits = [later - sooner for sooner, later in pairwise(came_at)]
        # The end of an interval may be in the midst of them.
        assert sum(wait > 0.1 for wait in waits) <= 1
        stream.close()


def test_a_client_that_has_gone_is_forgotten() -> None:
    with site() as here:
        stream = Stream(here)
        stream.block()
        stream.close()
        ends_at = time.monotonic() + 5
        while not here.rhythm.is_quiet:
            assert time.monotonic() < ends_at
            time.sleep(0.01)


def test_one_too_many_is_told_so() -> None:
    with site(HttpLimits(max_long_lived=1)) as here:
        first = Stream(here)
        first.block()
        second = Stream(here)
        assert (second.status, second.headers["content-type"]) == (503, "application/problem+json")
        first.close()
        second.close()


def test_a_client_that_takes_nothing_is_ended_and_holds_up_nobody() -> None:
    with site(HttpLimits(stalled_s=0.5)) as here:
        slow = here.served.connect()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /api/v1/events?batch_ms=10 HTTP/1.1\r\nHost: x\r\n\r\n")
        stream = Stream(here, "?batch_ms=10")
        stream.block()
        ends_at = time.monotonic() + 10
        is_ended = False
        count = 0
        while not is_ended:
            assert time.monotonic() < ends_at
            here.happens("play_started", "a" * 60_000)
            count += 1
            assert stream.block()["id"] == f"b7:{count}"
            is_ended = len(here.served.connections._exchanges._open) == 1
        slow.close()
        stream.close()


@pytest.mark.parametrize(
    "query", ["?batch_ms=1", "?batch_ms=x", "?samples=perhaps", f"?kind={'a' * 65}", "?kind=*****", "?kind=play.*"]
)
def test_parameters_that_are_none_are_refused(query: str) -> None:
    with site() as here:
        stream = Stream(here, query)
        assert stream.status == 422
        stream.close()


@contextmanager
def websocket(here: Site, query: str = "", **headers: str) -> Iterator[Any]:
    connection = here.served.connect()
    with connect(f"ws://x/api/v1/events{query}", sock=connection, additional_headers=headers) as client:
        yield client


def test_a_websocket_hears_the_same_as_messages() -> None:
    with site() as here, websocket(here, "?app=live&batch_ms=10") as client:
        here.happens("play_started", "other")
        here.happens("play_stopped")
        assert json.loads(client.recv(5)) == {"id": "b7:2", "event": "play_stopped", "data": {"app": "live"}}
        client.send("nobody listens")
        here.happens("play_started")
        assert json.loads(client.recv(5))["id"] == "b7:3"


def test_a_websocket_that_comes_back_hears_what_it_missed_or_a_reset() -> None:
    with site() as here:
        for kind in ("a", "b"):
            here.happens(kind)
        with websocket(here, "?last_event_id=b7:1") as client:
            assert json.loads(client.recv(5))["event"] == "b"
        with websocket(here, **{"Last-Event-ID": "b6:1"}) as client:
            assert json.loads(client.recv(5)) == {"id": "b7:2", "event": "reset", "data": {}}


def test_a_websocket_that_has_gone_is_forgotten() -> None:
    with site() as here:
        with websocket(here) as client:
            here.happens()
            client.recv(5)
        ends_at = time.monotonic() + 5
        while not here.rhythm.is_quiet:
            assert time.monotonic() < ends_at
            time.sleep(0.01)


def test_a_websocket_that_goes_on_talking_is_ended() -> None:
    with site() as here, websocket(here) as client:
        for _ in range(100):
            client.send("")
        with pytest.raises(ConnectionClosed) as ended:
            client.recv(5)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1008


def test_a_websocket_that_pings_and_takes_no_answer_is_ended() -> None:
    with site() as here, here.served.connect() as client:
        client.sendall(
            b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        pings = (b"\x89\xfd" + bytes(4 + 125)) * 500_000
        client.settimeout(20)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.sendall(pings)
