"""The watch page and the player: which files they are made of, and where they are served.

Owns the paths: the page of every stream at `/{app}/{stream}`, the player's modules below `/watch/`. There is one page
for all streams, whose script reads its own address, so nothing that a client sent is ever written into it. Pages of
other sites may load the player, and may have the player in a frame (`?embed=1`); the page around it they may not.
Whether there is such a stream, and who may watch, is the matter of the workers that answer for its media.
"""

import json
from importlib.resources import files
from typing import Final

from penstock.config import Config
from penstock.config_units import Address
from penstock.media_paths import MediaKind, read_media_path
from penstock.web.asgi import App, Receive, Scope, Send
from penstock.web.page.static_files import (
    Headers,
    StaticFile,
    StaticFiles,
    files_below,
    is_read,
    policy,
    refuse_method,
    send_file,
    static_file,
)
from penstock.web.site import written_path_of

PREFIX: Final = "/watch/"
SERVER: Final = "/watch/server.js"
_FOR_ALL_SITES: Final[Headers] = (
    (b"access-control-allow-origin", b"*"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)


def with_watch(config: Config, otherwise: App) -> App:
    """A site with watch pages and the player in front of it."""
    found = files_below(files("penstock.web.watch") / "static", PREFIX, _FOR_ALL_SITES)
    page = found.pop(f"{PREFIX}index.html")
    media_port = _media_port(config)
    found[SERVER] = static_file("text/javascript; charset=utf-8", _server(config, media_port), _FOR_ALL_SITES)
    return WatchPages(page, media_port, StaticFiles(found, {}, otherwise))


def is_watch_path(path: str) -> bool:
    """Whether a path, as it is written, is that of a watch page: that of a stream's media, without the suffix."""
    if read_media_path(path) is not None:
        return False
    media = read_media_path(path + MediaKind.MP4.value)
    return media is not None and media.kind is MediaKind.MP4


class WatchPages:
    """An application with the watch page of every stream in front of it."""

    def __init__(self, page: StaticFile, media_port: int | None, otherwise: App) -> None:
        """`media_port`: where media are, if not where the page is."""
        media = "" if media_port is None else f" *:{media_port}"
        self._page = page._replace(more=policy("'self'", media))
        self._embedded = page._replace(more=policy("*", media))
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or not is_watch_path(written_path_of(scope)):
            await self._otherwise(scope, receive, send)
        elif is_read(scope):
            await send_file(scope, send, self._embedded if _is_embedded(scope) else self._page)
        else:
            await refuse_method(receive, send)


def _is_embedded(scope: Scope) -> bool:
    query: bytes = scope["query_string"]
    return b"embed=1" in query.split(b"&")


def _server(config: Config, media_port: int | None) -> bytes:
    """What the page cannot know by its own address, as a module: ports of this host."""
    ports = {"rtmp": _port(config.rtmp.listen), "rtmps": _port(config.tls.listen), "media": media_port}
    return f"export const ports = {json.dumps(ports)};\n".encode()


def _media_port(config: Config) -> int | None:
    # Where web has a port of its own, pages are there and media are not.
    return None if config.http.web_listen is None else _port(config.http.listen)


def _port(address: Address | None) -> int | None:
    # Port 0 is one that nobody knows before.
    return None if address is None or address.port == 0 else address.port
