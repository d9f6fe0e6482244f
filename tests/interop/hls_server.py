"""A real server with a stream, and what is asked of it over HTTP: playlists, what they name, and clients of others."""

import http.client
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from tests.support import ffmpeg
from tests.support.hls_checker import Playlist, read_playlist
from tests.support.penstock_server import PenstockServer, penstock_server

DEADLINE_S = 20.0
QUICK = '[logs]\nlevel = "info"\n'
PATH = "/live/a.m3u8"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """Asks over one connection, as a player does."""

    def __init__(self, port: int, agent: str = "test") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        self._agent = agent

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, headers={"User-Agent": self._agent, **named})
        answer = self._connection.getresponse()
        body = answer.read()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)

    def get(self, path: str, **headers: str) -> Reply:
        """What is there."""
        reply = self.ask(path, **headers)
        assert reply.status == 200, (path, reply)
        return reply

    def media_path(self, path: str = PATH) -> str:
        """The media playlist that a multivariant one names."""
        (name,) = [line for line in self.get(path).text.splitlines() if not line.startswith("#")]
        return urljoin(path, name)

    def playlist(self, path: str) -> Playlist:
        return read_playlist(self.get(path).text)

    def close(self) -> None:
        self._connection.close()


def next_query(playlist: Playlist) -> str:
    """What a player asks for next."""
    newest = playlist.open_segment
    if newest is None:
        return f"?_HLS_msn={playlist.segments[-1].number + 1}&_HLS_part=0"
    return f"?_HLS_msn={newest.number}&_HLS_part={len(newest.parts)}"


@dataclass(frozen=True, slots=True)
class HlsServer:
    """A server and the port of its HTTP."""

    server: PenstockServer
    port: int
    clients: list[Client]
    """To be closed at the end."""

    def url(self, path: str = PATH) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def client(self, agent: str = "test", port: int | None = None) -> Client:
        client = Client(self.port if port is None else port, agent)
        self.clients.append(client)
        return client


@contextmanager
def hls_server(folder: Path, config: str = QUICK, workers: int = 1) -> Iterator[HlsServer]:
    options = ["--http", "127.0.0.1:0", "--workers", str(workers)]
    with penstock_server(folder, options, config) as server:
        port = int(str(server.wait_for_line("server started")["http"]).rpartition(":")[2])
        on = HlsServer(server, port, [])
        try:
            yield on
        finally:
            for client in on.clients:
                client.close()


@contextmanager
def published(folder: Path, config: str = QUICK, workers: int = 1, query: str = "") -> Iterator[HlsServer]:
    """FFmpeg publishes live/a."""
    with (
        hls_server(folder, config, workers) as on,
        ffmpeg.publishing(on.server.url("a") + query, folder / "publisher.log"),
    ):
        yield on


def names_in(text: str) -> list[str]:
    return re.findall(r'URI="([^"]+)"', text) + [line for line in text.splitlines() if not line.startswith("#")]


def wait_until(is_so: Callable[[], bool], seconds: float = DEADLINE_S) -> None:
    """Return once a call says yes."""
    give_up_at = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up_at, "waited in vain"
        time.sleep(0.1)
