"""Files that come with the package, served as they are: what a page is made of.

Owns which there are, their types, their ETags, and the policy that pages live under: scripts, styles and data of this
server alone, and nothing written into the page itself. Every use is checked by ETag, so that an upgrade shows at the
next load. Files are read once; a large one when it is first asked for, in another thread. Refuses bodies and methods
other than GET and HEAD; paths that are not known go to the next application.
"""

import asyncio
import gzip
from collections.abc import Mapping
from email.utils import formatdate
from hashlib import blake2b
from http import HTTPStatus
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from penstock.web.asgi import App, Receive, Scope, Send
from penstock.web.exchanges import stay_open
from penstock.web.site import brings_body, linger, path_of

Headers = tuple[tuple[bytes, bytes], ...]


def policy(frame_ancestors: str = "'none'", media: str = "") -> Headers:
    """What a page may do, and whose frames it may be in; `media` are more places that it may have media from."""
    rules = (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        f"media-src 'self' blob:{media}",
        f"connect-src 'self'{media}",
        "worker-src 'self' blob:",
        "base-uri 'none'",
        "form-action 'none'",
        f"frame-ancestors {frame_ancestors}",
    )
    return ((b"content-security-policy", "; ".join(rules).encode()),)


_PIECE_BYTES: Final = 64 * 1024
_HTML: Final = "text/html; charset=utf-8"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": _HTML,
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ALWAYS: Final = (
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept-encoding"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"connection", b"close"),
)


class StaticFile(NamedTuple):
    """One file as it is sent."""

    content_type: str
    body: bytes
    zipped: bytes
    etag: bytes
    more: Headers = ()
    """Headers that other files do not have."""


def static_file(content_type: str, body: bytes, more: Headers = ()) -> StaticFile:
    """A file of these bytes; pages have a policy."""
    digest = blake2b(body, digest_size=12).hexdigest()
    own = policy() if content_type == _HTML else ()
    # With the time left out, equal files are equal bytes.
    return StaticFile(content_type, body, gzip.compress(body, 6, mtime=0), f'"{digest}"'.encode(), own + more)


def read_file(file: Traversable, more: Headers = ()) -> StaticFile:
    """A file of a known type."""
    return static_file(_TYPES[_suffix_of(file)], file.read_bytes(), more)


def files_below(folder: Traversable, prefix: str, more: Headers = ()) -> dict[str, StaticFile]:
    """Every file of a known type in a folder and the folders in it, by path."""
    found: dict[str, StaticFile] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found |= files_below(each, f"{prefix}{each.name}/", more)
        elif _suffix_of(each) in _TYPES:
            found[prefix + each.name] = read_file(each, more)
    return found


def _suffix_of(file: Traversable) -> str:
    return "." + file.name.rpartition(".")[2]


class StaticFiles:
    """An application with files in front of it."""

    def __init__(self, files: Mapping[str, StaticFile], later: Mapping[str, Traversable], otherwise: App) -> None:
        """`later` are files that few ask for, and that are large."""
        self._files = dict(files)
        self._later = later
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        path = path_of(scope) if scope["type"] == "http" else ""
        if path not in self._files and path not in self._later:
            await self._otherwise(scope, receive, send)
        elif is_read(scope):
            await send_file(scope, send, await self._file(scope, path))
        else:
            await refuse_method(receive, send)

    async def _file(self, scope: Scope, path: str) -> StaticFile:
        if path not in self._files:
            self._files[path] = await asyncio.to_thread(read_file, self._later[path])
        if path in self._later:
            # A slow client takes longer for it than other answers may.
            stay_open(scope)
        return self._files[path]


def is_read(scope: Scope) -> bool:
    """Whether a request is one that a file answers."""
    return scope["method"] in ("GET", "HEAD") and not brings_body(scope)


async def refuse_method(receive: Receive, send: Send) -> None:
    """Answer any other."""
    await linger(receive)
    await _send(send, HTTPStatus.METHOD_NOT_ALLOWED, [(b"allow", b"GET, HEAD")], b"")


async def send_file(scope: Scope, send: Send, file: StaticFile) -> None:
    """Answer a request with a file, or with the word that the client has it already."""
    asked = dict(scope["headers"])
    headers = [(b"etag", file.etag), (b"content-type", file.content_type.encode()), *file.more]
    if file.etag in asked.get(b"if-none-match", b""):
        await _send(send, HTTPStatus.NOT_MODIFIED, headers, None)
    elif b"gzip" in asked.get(b"accept-encoding", b""):
        await _send(send, HTTPStatus.OK, [*headers, (b"content-encoding", b"gzip")], file.zipped)
    else:
        await _send(send, HTTPStatus.OK, headers, file.body)


async def _send(send: Send, status: HTTPStatus, headers: list[tuple[bytes, bytes]], body: bytes | None) -> None:
    length = [] if body is None else [(b"content-length", b"%d" % len(body))]
    date = (b"date", formatdate(usegmt=True).encode())
    await send({"type": "http.response.start", "status": status.value, "headers": [date, *headers, *length, *_ALWAYS]})
    rest = memoryview(body or b"")
    # A piece is taken before the next: a client that has too much of an answer before it is given up.
    while len(rest) > _PIECE_BYTES:
        await send({"type": "http.response.body", "body": bytes(rest[:_PIECE_BYTES]), "more_body": True})
        rest = rest[_PIECE_BYTES:]
    await send({"type": "http.response.body", "body": bytes(rest), "more_body": False})
