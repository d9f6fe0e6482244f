"""Heads of requests: which are for media, and what they say. Read by h11, nothing is guessed.

Owns what a head may be: so long, GET, HEAD or OPTIONS, without a body. What is not for media is told apart by its first
line and not looked at any further; it may be as wrong as it likes.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import h11

from penstock.media_paths import MediaPath, read_media_path

MAX_HEAD_BYTES: Final = 16 * 1024
METHODS: Final = frozenset((b"GET", b"HEAD", b"OPTIONS"))

_LINE: Final = re.compile(rb"([A-Z]{1,16}) ([!-~]{1,16384}) HTTP/1\.[01]", re.ASCII)
_AUTHORITY: Final = re.compile(r"https?://[^/?]+(?=/)", re.ASCII | re.IGNORECASE)
"""What is before the path where a client names the whole address, as it would to a proxy."""
_END_OF_LINE: Final = re.compile(rb"\r?\n")
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_NO_GZIP: Final = re.compile(rb"gzip[ \t]*;[ \t]*q=0(\.0*)?[ \t]*(,|$)", re.ASCII)
_LEAST_LINE: Final = re.compile(rb"[A-Z]{0,16}( [!-~]*)?( [HTP/1.0]*\r?)?", re.ASCII)


class Line(NamedTuple):
    """The first line of a request for media."""

    method: bytes
    path: MediaPath
    query: str


@dataclass(frozen=True, slots=True)
class Traits:
    """What a head says behind its first line: the same for each request of one client."""

    headers: Mapping[bytes, bytes] = field(repr=False)
    stays_open: bool
    """Whether the client may ask for more on this connection."""
    fault: int | None = None
    """The status of the answer to one that is not served, whatever it asks for."""

    @property
    def if_none_match(self) -> bytes | None:
        return self.headers.get(b"if-none-match")

    @property
    def takes_gzip(self) -> bool:
        """Whether the client reads what is compressed."""
        return takes_gzip(self.headers)

    @property
    def origin(self) -> bytes | None:
        """Of the page that asks."""
        return self.headers.get(b"origin")


class Head(NamedTuple):
    """A whole head for media."""

    raw_line: bytes
    line: Line
    block: bytes
    """All behind the first line."""
    size: int


def read_head(data: bytes) -> Head | Line | bool:
    """What the bytes at the beginning of a request are.

    False: not for media. True: the first line is not all there, and may become one for media. A `Line`: only the rest
    of the head is missing.
    """
    end = _END_OF_LINE.search(data)
    if end is None:
        return _LEAST_LINE.fullmatch(data) is not None and len(data) < MAX_HEAD_BYTES
    raw_line = data[: end.start()]
    line = read_line(raw_line)
    if line is None:
        return False
    end_of_head = _END_OF_HEAD.search(data, end.start())
    if end_of_head is None:
        return line
    return Head(raw_line, line, data[end.end() : end_of_head.end()], end_of_head.end())


def read_line(raw: bytes) -> Line | None:
    """The first line of a request for media; None: it is not for media."""
    parts = _LINE.fullmatch(raw)
    if parts is None:
        return None
    target = parts[2].decode("ascii")
    authority = _AUTHORITY.match(target)
    path, _, query = (target if authority is None else target[authority.end() :]).partition("?")
    media = read_media_path(path)
    return None if media is None else Line(parts[1], media, query)


def read_traits(raw_line: bytes, block: bytes) -> Traits:
    """What a head says behind its first line."""
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
    reader.receive_data(raw_line + b"\r\n" + block)
    try:
        request = reader.next_event()
    except h11.RemoteProtocolError as error:
        return Traits({}, stays_open=False, fault=error.error_status_hint)
    if not isinstance(request, h11.Request):
        return Traits({}, stays_open=False, fault=400)
    headers: dict[bytes, bytes] = {}
    for name, value in request.headers:
        known = headers.get(name)
        headers[name] = value if known is None else b"%s, %s" % (known, value)
    tokens = {token.strip().lower() for token in headers.get(b"connection", b"").split(b",")}
    stays_open = request.http_version == b"1.1" and b"close" not in tokens
    # Nothing that is asked for here takes a body, and whoever sends one may mean to hide a request in it.
    has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
    return Traits(headers, stays_open and not has_body, fault=413 if has_body else None)


def takes_gzip(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a client reads what is compressed."""
    said = headers.get(b"accept-encoding", b"")
    return b"gzip" in said and _NO_GZIP.search(said) is None


def bearer_of(headers: Mapping[bytes, bytes]) -> str | None:
    """The token of `Authorization: Bearer`."""
    scheme, _, token = headers.get(b"authorization", b"").strip().partition(b" ")
    return token.strip().decode("latin-1") or None if scheme.lower() == b"bearer" else None


def basic_of(headers: Mapping[bytes, bytes]) -> tuple[str, str] | None:
    """Name and password of `Authorization: Basic`."""
    scheme, _, coded = headers.get(b"authorization", b"").strip().partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        name, colon, password = base64.b64decode(coded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None
