"""Requests to answers, as ASGI says them, without a server."""

import asyncio
from http import HTTPStatus
from typing import Any

import pytest

from penstock.web.asgi import Event
from penstock.web.site import Answer, Site


async def hello() -> Answer:
    return Answer(HTTPStatus.OK, b"hello\n")


def asked(
    path: str = "/hello",
    method: str = "GET",
    headers: list[tuple[bytes, bytes]] | None = None,
    *more: Event,
    unread_events: int = 0,
) -> list[dict[str, Any]]:
    """What is sent to the client, with what it sends besides."""
    sent: list[dict[str, Any]] = []
    incoming = list(more)

    async def receive() -> Event:
        return incoming.pop(0) if incoming else {"type": "http.disconnect"}

    async def send(event: Event) -> None:
        sent.append(dict(event))

    scope = {"type": "http", "path": path, "method": method, "headers": headers or []}
    asyncio.run(Site({"/hello": hello})(scope, receive, send))
    assert len(incoming) == unread_events
    return sent


def test_an_answer_is_not_to_be_kept_and_ends_the_connection() -> None:
    start, body = asked()
    headers = dict(start["headers"])
    assert start["status"] == 200
    assert headers.pop(b"date").endswith(b"GMT")
    assert headers == {
        b"content-type": b"text/plain; charset=utf-8",
        b"content-length": b"6",
        b"cache-control": b"no-store",
        b"connection": b"close",
    }
    assert body == {"type": "http.response.body", "body": b"hello\n", "more_body": False}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/hello/", 404),
        ("", 404),
        ("*", 404),
        ("http://host/hello", 200),
        ("https://host:1/hello", 200),
        ("http://host", 404),
        ("hello", 404),
    ],
)
def test_a_path_is_found_with_or_without_a_host_in_front(path: str, status: int) -> None:
    assert asked(path)[0]["status"] == status


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "get"])
def test_other_methods_are_told_which_there_are(method: str) -> None:
    start, body = asked(method=method)
    assert (start["status"], dict(start["headers"])[b"allow"]) == (405, b"GET, HEAD")
    assert body["body"] == b"Method Not Allowed\n"


@pytest.mark.parametrize("header", [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")])
def test_a_body_is_refused_and_read_behind_the_answer(header: tuple[bytes, bytes]) -> None:
    body: list[Event] = [
        {"type": "http.request", "body": b"12", "more_body": True},
        {"type": "http.request", "body": b"345"},
    ]
    events = asked("/hello", "GET", [header], *body)
    assert [event.get("status") for event in events] == [413, None, None]
    assert [event.get("more_body") for event in events] == [None, True, False]


def test_an_empty_body_is_none() -> None:
    assert asked(headers=[(b"content-length", b"0")])[0]["status"] == 200


def test_a_body_without_end_is_read_for_a_while_only() -> None:
    piece = {"type": "http.request", "body": b"x" * 64 * 1024, "more_body": True}
    assert len(asked("/hello", "POST", [(b"transfer-encoding", b"chunked")], *[piece] * 6, unread_events=2)) == 3
