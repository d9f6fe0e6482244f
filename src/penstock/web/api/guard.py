"""In front of the API: which hosts and origins it answers to, who is let in, and how long a body may be.

Owns what holds for every request alike, WebSockets included, so that no route can forget it. A request that gets
through is made by somebody who may read; routes that change something ask for more by `requires`.
"""

import ipaddress
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, cast

from fastapi import Depends
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import Response

from penstock.logs import get_logger
from penstock.web.api.problems import Problem, problem_answer
from penstock.web.api.tokens import Caller, NotLetIn, Role, Tokens
from penstock.web.api.wrong_tokens import WrongTokens
from penstock.web.asgi import App, Event, Receive, Scope, Send
from penstock.web.site import linger

MAX_BODY_BYTES: Final = 64 * 1024
PUBLIC_PATHS: Final = frozenset(("/api", "/api/", "/api/openapi.json", "/api/v1/openapi.json"))
"""The schema and the page that shows it say nothing about this server."""
_CALLER: Final = "penstock.caller"
_READING: Final = ("GET", "HEAD", "OPTIONS")
_HEADERS: Final = (
    (b"cache-control", b"private, no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
ASKS_FOR_TOKEN: Final = {"www-authenticate": "Bearer"}
_POLICY_VIOLATION: Final = 1008


@dataclass(frozen=True)
class GuardSettings:
    """Who may come."""

    keys: tuple[str, ...] = ()
    loopback_reads: bool = True
    cors_origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = field(default=())
    """Names that this server goes by, besides localhost and addresses."""


class RequiredRole:
    """A dependency of routes: the caller must have this role."""

    def __init__(self, role: Role) -> None:
        self.role = role

    def __call__(self, connection: HTTPConnection) -> None:
        """Refuse those who have it not."""
        caller = caller_of(connection)
        if caller.role >= self.role:
            return
        if caller.name is None:
            # A reader on this machine: what is missing is a token, and not a better one.
            raise Problem(HTTPStatus.UNAUTHORIZED, NotLetIn.WITHOUT.value, ASKS_FOR_TOKEN)
        raise Problem(HTTPStatus.FORBIDDEN, f"This needs the role {self.role.name.lower()}.")


def requires(role: Role) -> Any:
    """The same, as routes are given it."""
    return Depends(RequiredRole(role))


def caller_of(connection: HTTPConnection) -> Caller:
    """Who makes a request that was let in."""
    caller: Caller = connection.scope[_CALLER]
    return caller


class Guard:
    """An application with this in front of it."""

    def __init__(
        self,
        app: App,
        settings: GuardSettings,
        wrong_tokens: WrongTokens | None = None,
        is_linked: Callable[[Scope], bool] = lambda _: False,
    ) -> None:
        """`wrong_tokens` outlives a reload; None: there were none yet.

        `is_linked`: whether a request is by a link that this server made for what it asks. A browser's video and image
        elements send no headers, so they are let in by that.
        """
        self._is_linked = is_linked
        self._app = app
        self._wrong_tokens = wrong_tokens or WrongTokens(time.monotonic)
        self._tokens = Tokens(settings.keys, loopback_reads=settings.loopback_reads)
        self._origins = frozenset(settings.cors_origins)
        self._hosts = frozenset(each.lower() for each in settings.hosts)
        self._shared = self._with_cors(self._admit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one WebSocket."""
        headers = dict(scope["headers"])
        if not is_own_host(headers.get(b"host", b"").decode("latin-1"), self._hosts):
            detail = "This server does not go by that name; http.hosts lists the names that it does."
            await _refuse(scope, receive, _dressed(send), problem_answer(HTTPStatus.MISDIRECTED_REQUEST, detail))
        else:
            await self._shared(scope, receive, _dressed(send) if scope["type"] == "http" else send)

    def _with_cors(self, app: App) -> App:
        if not self._origins:
            return app
        middleware = CORSMiddleware(
            cast("Any", app),
            allow_origins=sorted(self._origins),
            allow_methods=("GET", "POST", "PUT", "DELETE"),
            allow_headers=("authorization", "content-type", "if-none-match", "last-event-id", "range"),
            expose_headers=("etag", "location", "content-range"),
        )
        return cast("App", middleware)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        # In front of any refusal: an answer to a request that is not read to its end may be lost.
        if scope["type"] == "http":
            body = await _read_body(receive)
            if body is None:
                await linger(receive)
                detail = f"A body may have {MAX_BODY_BYTES} bytes."
                await _refuse(scope, receive, send, problem_answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail))
                return
            receive = _replayed(body, receive)
        refusal = await self._refusal(scope, dict(scope["headers"]))
        if refusal is not None:
            await _refuse(scope, receive, send, refusal)
            return
        await self._serve(scope, receive, send)

    async def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        is_changing = scope["type"] == "websocket" or scope["method"] not in _READING
        if is_changing and not self._is_own_origin(headers):
            return problem_answer(HTTPStatus.FORBIDDEN, "Pages of that origin may not do this.")
        if scope["path"] in PUBLIC_PATHS:
            return None
        if self._is_linked(scope):
            scope[_CALLER] = Caller(None, Role.READ)
            return None
        address = scope["client"][0] if scope["client"] else None
        caller = self._tokens.caller(headers, address)
        match caller:
            case NotLetIn.WITHOUT:
                return problem_answer(HTTPStatus.UNAUTHORIZED, caller.value, ASKS_FOR_TOKEN)
            case NotLetIn.UNKNOWN:
                await self._wrong_tokens.shown(address)
                return problem_answer(HTTPStatus.FORBIDDEN, caller.value)
        scope[_CALLER] = caller
        return None

    def _is_own_origin(self, headers: dict[bytes, bytes]) -> bool:
        """Whether it comes from a page of ours, from one that the operator named, or from no page."""
        origin = headers.get(b"origin")
        if origin is None:
            return True
        text = origin.decode("latin-1")
        # The host was found to be ours; which scheme the page came by, a proxy may have changed.
        is_ours = text.partition("://")[2] == headers.get(b"host", b"").decode("latin-1") != ""
        return is_ours or text in self._origins

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def send_on(event: Event) -> None:
            nonlocal has_begun
            has_begun = True
            await send(event)

        try:
            await self._app(scope, receive, send_on)
        except Exception as error:
            # The path may have names in it that are not for the log.
            route = getattr(scope.get("route"), "path", "unknown")
            get_logger().error("API request failed", route=route, exc_info=error)
            if not has_begun:
                await _refuse(scope, receive, send, problem_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "See the log."))


def is_own_host(host: str, names: Iterable[str]) -> bool:
    """Whether a Host header names this server: by address, as localhost, or by a name that it is known by.

    A page of somebody else's can have its own name resolve to this machine (DNS rebinding), but its requests say so.
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.lower().partition(":")[0].removesuffix(".")
    if name == "localhost" or name.endswith(".localhost") or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _dressed(send: Send) -> Send:
    """With the headers that every answer has."""

    async def send_on(event: Event) -> None:
        if event["type"] == "http.response.start":
            told = {name.lower() for name, _ in event["headers"]}
            more = [(name, value) for name, value in _HEADERS if name not in told]
            fixed = [(b"date", formatdate(usegmt=True).encode()), (b"connection", b"close")]
            event = {**event, "headers": [*event["headers"], *more, *fixed]}
        await send(event)

    return send_on


async def _refuse(scope: Scope, receive: Receive, send: Send, answer: Response) -> None:
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    await answer(scope, cast("Any", receive), cast("Any", send))


async def _read_body(receive: Receive) -> bytes | None:
    """All of it; None: there is too much. The time for it is bounded where connections are."""
    body = bytearray()
    while True:
        event = await receive()
        body += event.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            return None
        if not event.get("more_body", False):
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Callable[[], Awaitable[Event]]:
    is_told = False

    async def receive_on() -> Event:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_on
