"""The question that a web process asks itself before it says that it is ready."""

import asyncio
import time
from http import HTTPStatus

import pytest

from penstock.web import self_test
from penstock.web.asgi import App, Receive, Scope, Send
from penstock.web.http_connections import HttpConnections
from penstock.web.self_test import complaint_of
from penstock.web.site import Answer, Site


async def ok() -> Answer:
    return Answer(HTTPStatus.OK, b"ok\n")


async def keeps_open(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
    await send({"type": "http.response.body", "body": b"ok\n"})


def complaint(app: App) -> str | None:
    async def ask() -> str | None:
        connections = HttpConnections(app, time.monotonic)
        serving = asyncio.create_task(connections.run())
        try:
            return await complaint_of(connections)
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            await asyncio.sleep(0)

    return asyncio.run(ask())


def test_an_answer_is_all_it_takes() -> None:
    assert complaint(Site({"/healthz": ok})) is None


def test_another_answer_is_shown() -> None:
    found = complaint(Site({}))
    assert found is not None
    assert found.startswith("the answer was b'HTTP/1.1 404 Not Found")


def test_an_answer_that_does_not_end_the_connection_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "_WITHIN_S", 0.2)
    assert complaint(keeps_open) == "no answer in 0.2 s"
