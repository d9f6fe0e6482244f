"""Paths and methods to answers, as an ASGI application.

Owns what every answer has in common: it is not to be kept, and the connection ends with it. Refuses bodies, and methods
other than GET and HEAD. Knows no pages: routes are given. The grammar of HTTP is uvicorn's matter.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from penstock.logs import get_logger
from penstock.web.asgi import App, Receive, Scope, Send

_LINGER_S: Final = 1.0
_LINGER_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to a request."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Handler = Callable[[], Awaitable[Answer]]


class Site:
    """Routes, served."""

    def __init__(self, routes: Mapping[str, Handler]) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        has_body = brings_body(scope)
        answer = await self._answer(scope, has_body=has_body)
        headers = [
            (b"date", formatdate(usegmt=True).encode()),
            (b"content-type", answer.content_type.encode()),
            (b"content-length", b"%d" % len(answer.body)),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
        ]
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": answer.status.value, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": has_body})
        if has_body:
            await linger(receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _answer(self, scope: Scope, *, has_body: bool) -> Answer:
        if scope["method"] not in ("GET", "HEAD"):
            return plain(HTTPStatus.METHOD_NOT_ALLOWED)
        if has_body:
            return plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        handler = self._routes.get(path_of(scope))
        if handler is None:
            return plain(HTTPStatus.NOT_FOUND)
        try:
            return await handler()
        except Exception as error:
            get_logger().error("HTTP request failed", path=scope["path"], exc_info=error)
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR)


def beside_api(site: App, api: App) -> App:
    """What is below /api for one application, everything else for the other, which knows no WebSockets."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if path == "/api" or path.startswith("/api/"):
            await api({**scope, "path": path}, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await site(scope, receive, send)

    return serve


def plain(status: HTTPStatus) -> Answer:
    """A status in its own words."""
    return Answer(status, f"{status.phrase}\n".encode())


def path_of(scope: Scope) -> str:
    """Without scheme and host, which a client may put in front of it (RFC 9112, section 3.2.2)."""
    return _without_host(scope["path"])


def written_path_of(scope: Scope) -> str:
    """The same before it is decoded, where `a%2Fb` is one segment."""
    written: bytes = scope["raw_path"]
    return _without_host(written.decode("ascii", "surrogateescape"))


def _without_host(path: str) -> str:
    if path.startswith("/"):
        return path
    _, _, rest = path.partition("://")
    _, slash, rest = rest.partition("/")
    return slash + rest


def brings_body(scope: Scope) -> bool:
    """Whether a request has one, by its headers."""
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b"0") != b""


async def linger(receive: Receive) -> None:
    """Read some of what the client still sends: closing before would reset the connection, and lose the answer."""
    read_bytes = 0
    try:
        async with asyncio.timeout(_LINGER_S):
            while read_bytes < _LINGER_BYTES:
                event = await receive()
                read_bytes += len(event.get("body", b""))
                if not event.get("more_body", False):
                    return
    except TimeoutError:
        return
