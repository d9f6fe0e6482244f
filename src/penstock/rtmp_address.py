"""Addresses of streams: `rtmp://host[:port]/app/stream?query`, split as FFmpeg splits them.

Owns the split into app and stream name. With two segments the first is the app; with more, the first two are, unless
the second holds a colon (`live/mp4:folder/file`), which only stream names do. Who means another split says so. Nothing
is decoded: servers compare names as they are written. Refuses what has no app or no stream name, and user names, which
belong into a query.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus, urljoin, urlsplit

from penstock.errors import MalformedInput

_LAYER: Final = "rtmp url"
_DEFAULT_PORTS: Final = {"rtmp": 1935, "rtmps": 443}
_MAX_TC_URL_CHARACTERS: Final = 4096
"""Of one that a server sends: a message may have megabytes, and those take seconds to resolve."""


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """Where a stream is. `stream` still holds its query, as servers want it in publish and play."""

    host: str
    port: int
    app: str
    stream: str
    is_tls: bool = False

    @property
    def tc_url(self) -> str:
        """The address of the app, as connect tells it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rtmps' if self.is_tls else 'rtmp'}://{host}:{self.port}/{self.app}"

    @property
    def server(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}:{self.port}"


def read_address(url: str, *, app: str | None = None, stream: str | None = None) -> StreamAddress:
    """Split a URL. With `app` alone, what follows it in the path is the stream; with both, the path does not count."""
    host, port, is_tls, path, query = _read_server(url)
    if app is not None and stream is not None:
        return StreamAddress(host, port, app, stream, is_tls)
    if app is not None:
        stream = path.removeprefix(f"{app}/")
    elif stream is not None:
        app = path.rstrip("/")
    else:
        app, stream = _split_path(path)
    if not app or not stream:
        missing = "app" if not app else "stream name"
        raise MalformedInput(_LAYER, f"{url!r} has no {missing}; expected rtmp://host[:port]/app/stream")
    return StreamAddress(host, port, app, stream + query, is_tls)


def moved_to(address: StreamAddress, tc_url: str | None) -> StreamAddress:
    """The same stream where a server sends its clients (Enhanced RTMP v2, reconnect request).

    Without a `tc_url`, with one that is none, and with one that would leave TLS, that is where they came from.
    """
    if tc_url is None or len(tc_url) > _MAX_TC_URL_CHARACTERS:
        return address
    try:
        host, port, is_tls, path, _ = _read_server(_resolved(address.tc_url, tc_url))
    except MalformedInput:
        return address
    app = path.rstrip("/")
    if not app or (address.is_tls and not is_tls):
        return address
    return StreamAddress(host, port, app, address.stream, is_tls)


def secrets_in(query: str) -> set[str]:
    """What may be a credential in a query, as it is written and as servers read it: all of it, and each value."""
    pieces = [part.partition("=")[2] if "=" in part else part for part in query.split("&")]
    return {text for each in (query, *pieces) for text in (each, unquote_plus(each)) if text}


def _resolved(base_url: str, url: str) -> str:
    if "://" in url:
        return url
    # urljoin leaves URLs of schemes alone that it does not know, and RTMP's are built like HTTP's.
    scheme, _, rest = base_url.partition(":")
    return scheme + urljoin(f"http:{rest}", url).removeprefix("http")


def _read_server(url: str) -> tuple[str, int, bool, str, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as fault:
        raise MalformedInput(_LAYER, f"{url!r}: {fault}") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise MalformedInput(_LAYER, f"{url!r} starts with none of rtmp:// and rtmps://")
    if not host:
        raise MalformedInput(_LAYER, f"{url!r} has no host")
    if parts.username is not None:
        raise MalformedInput(_LAYER, f"a user name in front of {host} is not sent; put credentials into the query")
    # A fragment is no part of these URLs, so a hash belongs to the name or the query that it stands in.
    path, mark, query = url.split("://", 1)[1].partition("/")[2].partition("?")
    is_tls = parts.scheme == "rtmps"
    return host, _DEFAULT_PORTS[parts.scheme] if port is None else port, is_tls, path, mark + query


def _split_path(path: str) -> tuple[str, str]:
    app, _, rest = path.partition("/")
    second, slash, after = rest.partition("/")
    if slash and ":" not in second:
        return f"{app}/{second}", after
    return app, rest
