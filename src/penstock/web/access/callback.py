"""The callback: the operator's own service is asked whether somebody may.

Owns what it is sent, in our form or in that of nginx-rtmp, how its answers are read, and what happens if there is none
that can be used. Redirects are not followed, bodies and the number of questions at a time are bounded, and what is said
of a failure holds neither names nor credentials. Viewers of HLS are asked about with every playlist, several times a
second: an answer about one counts for a second.
"""

import asyncio
import hashlib
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from urllib.parse import urlencode

import httpx

from penstock.access.request import Grant

MAX_AT_A_TIME: Final = 64
MAX_WAITING: Final = 2000
MAX_BODY_BYTES: Final = 16 * 1024
ANSWER_COUNTS_S: Final = 1.0
"""As long as viewers over a connection go on before they are looked at again."""
_MAX_ANSWERS: Final = 10_000
_MAX_NAME_CHARACTERS: Final = 255
_MAX_EXPIRES_S: Final = 366 * 86_400


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    """What is asked, by the names of our form."""

    action: str
    app: str
    stream: str = field(repr=False)
    protocol: str
    peer_addr: str
    query: str = field(repr=False)
    user: str | None
    token: str | None = field(repr=False)

    def as_of_hls(self) -> "CallbackRequest":
        """The same, whichever of its connections a player asks by."""
        return replace(self, peer_addr=_host(self.peer_addr))


class _Unusable(Exception):
    """No answer, or one that says nothing."""


class Callback:
    """One address that is asked."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        *,
        style: Literal["json", "nginx"] = "json",
        timeout_s: float = 2.0,
        fails: Literal["deny", "allow"] = "deny",
        on_failure: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._url = url
        self._style = style
        self._timeout_s = timeout_s
        self._fails = fails
        self._on_failure = on_failure
        self._clock = clock
        self._turns = asyncio.Semaphore(MAX_AT_A_TIME)
        self._waiting = 0
        self._answers: dict[bytes, tuple[float, Grant | None]] = {}
        """Of viewers of HLS by a hash of what is asked, which may be long; the oldest first, with the time of each."""

    async def grant(self, request: CallbackRequest) -> Grant | None:
        """None: it refuses, or could not be asked and `callback_fails` says so."""
        if request.protocol != "hls":
            return await self._grant(request)
        asked = hashlib.sha256(_json(request.as_of_hls())[0]).digest()
        answered_at, grant = self._answers.get(asked, (None, None))
        if answered_at is None or not 0 <= self._clock() - answered_at < ANSWER_COUNTS_S:
            grant = await self._grant(request)
            self._remember(asked, grant)
        return grant

    def _remember(self, asked: bytes, grant: Grant | None) -> None:
        now = self._clock()
        self._answers.pop(asked, None)
        self._answers[asked] = now, grant
        for other, (answered_at, _) in list(itertools.islice(self._answers.items(), 2)):
            if not 0 <= now - answered_at < ANSWER_COUNTS_S or len(self._answers) > _MAX_ANSWERS:
                del self._answers[other]

    async def _grant(self, request: CallbackRequest) -> Grant | None:
        try:
            status, location, body = await self._ask(request)
            return self._read(status, location, body)
        except (_Unusable, TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
            # What httpx says of an error may repeat the address, and with it what is behind `?`.
            self._on_failure(str(error) if isinstance(error, _Unusable) else type(error).__name__)
            return Grant() if self._fails == "allow" else None

    async def _ask(self, request: CallbackRequest) -> tuple[int, str | None, bytes]:
        if self._waiting >= MAX_WAITING:
            raise _Unusable("too many questions")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_s), self._turns:
                return await self._post(request)
        finally:
            self._waiting -= 1

    async def _post(self, request: CallbackRequest) -> tuple[int, str | None, bytes]:
        content, kind = _form(request) if self._style == "nginx" else _json(request)
        headers = {"content-type": kind, "accept-encoding": "identity"}
        async with self._client.stream("POST", self._url, content=content, headers=headers) as response:
            body = b""
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_BODY_BYTES:
                    raise _Unusable(f"an answer above {MAX_BODY_BYTES} bytes")
            return response.status_code, response.headers.get("location"), body

    def _read(self, status: int, location: str | None, body: bytes) -> Grant | None:
        if self._style == "nginx":
            return _read_of_nginx(status, location)
        if status in (401, 403):
            return None
        if status != 200:
            raise _Unusable(f"status {status}")
        return self._read_body(body)

    def _read_body(self, body: bytes) -> Grant:
        # A plain text, such as OK, is as good as nothing.
        if not body.lstrip().startswith(b"{"):
            return Grant()
        try:
            answer: dict[str, Any] = json.loads(body)
        except (ValueError, RecursionError):
            raise _Unusable("an answer that is no JSON") from None
        expires_in_s = answer.get("expires_in_s")
        is_time = isinstance(expires_in_s, int | float) and not isinstance(expires_in_s, bool)
        if expires_in_s is not None and not (is_time and 0 <= expires_in_s <= _MAX_EXPIRES_S):
            raise _Unusable("an answer whose expires_in_s is no time")
        return Grant(
            _name(answer, "subject"),
            None if expires_in_s is None else self._clock() + expires_in_s,
            _name(answer, "stream"),
        )


def _name(answer: dict[str, Any], key: str) -> str | None:
    value = answer.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not is_name(value):
        raise _Unusable(f"an answer whose {key} is no name")
    return value


def _host(peer_addr: str) -> str:
    return peer_addr.rpartition(":")[0].strip("[]")


def is_name(text: str) -> bool:
    return 0 < len(text) <= _MAX_NAME_CHARACTERS and text.isprintable()


def _json(request: CallbackRequest) -> tuple[bytes, str]:
    values = {
        "action": request.action,
        "app": request.app,
        "stream": request.stream,
        "protocol": request.protocol,
        "peer_addr": request.peer_addr,
        "query": request.query,
        "user": request.user,
        "token": request.token,
    }
    return json.dumps(values).encode(), "application/json"


def _form(request: CallbackRequest) -> tuple[bytes, str]:
    """As nginx-rtmp's on_publish and on_play post it: its own fields, then those of the query as they came."""
    fields = {
        "app": request.app,
        "flashver": "",
        "swfurl": "",
        "tcurl": "",
        "pageurl": "",
        "addr": _host(request.peer_addr),
        "clientid": "0",
        "call": request.action,
        "name": request.stream,
        **({"type": "live"} if request.action == "publish" else {"start": "0", "duration": "0", "reset": "0"}),
    }
    text = urlencode(fields) + (f"&{request.query}" if request.query else "")
    return text.encode(), "application/x-www-form-urlencoded"


def _read_of_nginx(status: int, location: str | None) -> Grant | None:
    """2xx lets in, 3xx lets in under the name in Location, 4xx refuses. What leads to another server is refused."""
    if 200 <= status < 300:
        return Grant()
    if 300 <= status < 400:
        is_plain = location is not None and is_name(location) and not set(location) & set("/:?#")
        return Grant(stream=location) if is_plain else None
    if 400 <= status < 500:
        return None
    raise _Unusable(f"status {status}")
