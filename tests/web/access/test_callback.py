"""The callback: what it is sent, what its answers mean, and what none means."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import parse_qsl

import httpx
import pytest

from penstock.access.request import Grant
from penstock.web.access.callback import MAX_AT_A_TIME, MAX_BODY_BYTES, MAX_WAITING, Callback, CallbackRequest

NOW = 1_800_000_000.0
ASKED = CallbackRequest("publish", "live", "a b", "rtmps", "[2001:db8::1]:4000", "key=k&x=1", "studio", "t.t.t")


class Asked:
    """One callback, the requests that it made and the failures that it told."""

    def __init__(
        self,
        handler: Any,
        *,
        style: Literal["json", "nginx"] = "json",
        fails: Literal["deny", "allow"] = "deny",
        timeout_s: float = 2.0,
    ) -> None:
        self.now = NOW
        self.failures: list[str] = []
        self.callback = Callback(
            httpx.AsyncClient(transport=httpx.MockTransport(handler), follow_redirects=False),
            "http://127.0.0.1:9000/auth?t=pw",
            style=style,
            timeout_s=timeout_s,
            fails=fails,
            on_failure=self.failures.append,
            clock=lambda: self.now,
        )

    def grant(self, request: CallbackRequest = ASKED) -> Grant | None:
        return asyncio.run(self.callback.grant(request))


def answering(status: int, body: bytes = b"", **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(status, stream=httpx.ByteStream(body), headers=headers)


def test_it_is_sent_what_is_asked_as_json() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answering(200)(request)

    assert Asked(handler).grant() == Grant()
    (request,) = seen
    assert (request.method, str(request.url)) == ("POST", "http://127.0.0.1:9000/auth?t=pw")
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.content) == {
        "action": "publish",
        "app": "live",
        "stream": "a b",
        "protocol": "rtmps",
        "peer_addr": "[2001:db8::1]:4000",
        "query": "key=k&x=1",
        "user": "studio",
        "token": "t.t.t",
    }


@pytest.mark.parametrize(
    ("body", "grant"),
    [
        (b"", Grant()),
        (b"OK", Grant()),
        (b"{}", Grant()),
        (b'{"subject": "alice", "stream": "main", "expires_in_s": 60}', Grant("alice", NOW + 60, "main")),
        (b' {"subject": null, "expires_in_s": 0.5, "more": []}', Grant(None, NOW + 0.5)),
    ],
)
def test_200_lets_in_and_may_say_more(body: bytes, grant: Grant) -> None:
    assert Asked(answering(200, body)).grant() == grant


@pytest.mark.parametrize("status", [401, 403])
def test_401_and_403_refuse_and_are_no_failures(status: int) -> None:
    asked = Asked(answering(status, b"{}"), fails="allow")
    assert asked.grant() is None
    assert asked.failures == []


@pytest.mark.parametrize(
    ("status", "body", "failure"),
    [
        (500, b"", "status 500"),
        (404, b"", "status 404"),
        (302, b"", "status 302"),
        (200, b"{", "an answer that is no JSON"),
        (200, b"{" * 9000, "an answer that is no JSON"),
        (200, b'{"subject": 5}', "an answer whose subject is no name"),
        (200, b'{"subject": "a\\nb"}', "an answer whose subject is no name"),
        (200, b'{"stream": ""}', "an answer whose stream is no name"),
        (200, b'{"expires_in_s": -1}', "an answer whose expires_in_s is no time"),
        (200, b'{"expires_in_s": true}', "an answer whose expires_in_s is no time"),
        (200, b'{"expires_in_s": 1e400}', "an answer whose expires_in_s is no time"),
        (200, b"x" * (MAX_BODY_BYTES + 1), "an answer above 16384 bytes"),
    ],
)
def test_an_answer_that_cannot_be_used_is_a_failure(status: int, body: bytes, failure: str) -> None:
    denying, allowing = (
        Asked(answering(status, body, location="http://b/")),
        Asked(answering(status, body), fails="allow"),
    )
    assert denying.grant() is None
    assert allowing.grant() == Grant()
    assert denying.failures == allowing.failures == [failure]


def test_who_cannot_be_reached_is_told_without_the_address() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"cannot reach {request.url}")

    asked = Asked(handler)
    assert asked.grant() is None
    assert asked.failures == ["ConnectError"]


def test_who_does_not_answer_in_time_has_failed() -> None:
    async def handler(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        return answering(200)(request)

    asked = Asked(handler, timeout_s=0.05)
    assert asked.grant() is None
    assert asked.failures == ["TimeoutError"]


def test_so_many_are_asked_at_a_time_and_so_many_may_wait() -> None:
    at_once = most = 0

    async def handler(request: httpx.Request) -> httpx.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1
        return answering(200)(request)

    asked = Asked(handler, timeout_s=30)

    async def many() -> list[Grant | None]:
        return await asyncio.gather(*(asked.callback.grant(ASKED) for _ in range(MAX_WAITING + 1)))

    grants = asyncio.run(many())
    assert most == MAX_AT_A_TIME
    assert [each for each in grants if each is None] == [None]
    assert asked.failures == ["too many questions"]


def test_a_backend_of_nginx_rtmp_is_sent_its_form() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answering(204)(request)

    asked = Asked(handler, style="nginx")
    assert asked.grant() == Grant()
    assert asked.grant(CallbackRequest("play", "live", "x", "rtmp", "192.0.2.1:5", "", None, None)) == Grant()
    assert {each.headers["content-type"] for each in seen} == {"application/x-www-form-urlencoded"}
    published, played = (dict(parse_qsl(each.content.decode(), keep_blank_values=True)) for each in seen)
    given = {name: value for name, value in published.items() if value}
    assert sorted(published.keys() - given.keys()) == ["flashver", "pageurl", "swfurl", "tcurl"]
    fields = {"app": "live", "addr": "2001:db8::1", "clientid": "0", "call": "publish", "name": "a b", "type": "live"}
    assert given == fields | {"key": "k", "x": "1"}
    assert (played["call"], played["name"], played["addr"], played["start"]) == ("play", "x", "192.0.2.1", "0")


@pytest.mark.parametrize(
    ("status", "location", "grant"),
    [
        (200, None, Grant()),
        (201, None, Grant()),
        (302, "main", Grant(stream="main")),
        (302, None, None),
        (302, "rtmp://elsewhere/live/x", None),
        (302, "/x", None),
        (404, None, None),
        (401, None, None),
    ],
)
def test_answers_for_nginx_rtmp_mean_what_they_mean_there(
    status: int, location: str | None, grant: Grant | None
) -> None:
    handler = answering(status) if location is None else answering(status, location=location)
    asked = Asked(handler, style="nginx", fails="allow")
    assert asked.grant() == grant
    assert asked.failures == []


def test_an_error_of_such_a_backend_is_a_failure() -> None:
    asked = Asked(answering(502), style="nginx")
    assert asked.grant() is None
    assert asked.failures == ["status 502"]


def test_a_viewer_of_hls_is_asked_about_once_a_second_whichever_connection_asks() -> None:
    statuses = iter([200, 200, 403, 200])

    def handler(request: httpx.Request) -> httpx.Response:
        return answering(next(statuses))(request)

    asked = Asked(handler)
    first, other_port, other_host = (
        replace(ASKED, action="play", protocol="hls", peer_addr=peer)
        for peer in ("192.0.2.1:4000", "192.0.2.1:4001", "192.0.2.2:4000")
    )
    assert [asked.grant(each) for each in (first, other_port, first, other_host)] == [Grant()] * 4
    asked.now += 0.9
    assert asked.grant(first) == Grant()
    asked.now += 0.2
    assert asked.grant(first) is None
    assert asked.grant(other_port) is None
    assert next(statuses) == 200


def test_anybody_else_is_asked_about_each_time() -> None:
    statuses = iter([200, 403])

    def handler(request: httpx.Request) -> httpx.Response:
        return answering(next(statuses))(request)

    asked = Asked(handler)
    assert [asked.grant(replace(ASKED, protocol="http-flv")) for _ in range(2)] == [Grant(), None]
