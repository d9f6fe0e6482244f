"""Viewers of HLS in one process, as cheap as they can be: for loads on a server, not for looking at pictures.

Owns two connections for each viewer, as players have. Of low-latency HLS one asks for the playlist that is to come, the
other for the part that it will name; of classic HLS one asks for a playlist each time that a segment should be there,
and for the segment. What all viewers are sent is parsed once. Each answer must be whole, and each segment or part new.
"""

import multiprocessing.synchronize
import re
import select
import socket
import time
from dataclasses import dataclass, field
from typing import Any

ADDRESS = "127.0.0.1"
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n")
_READ_BYTES = 256 * 1024


class WrongAnswer(Exception):
    """An answer is none that a player could go on with."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a playlist says to ask for next."""

    playlist: bytes
    media: bytes


@dataclass(eq=False, slots=True)
class Connection:
    """One connection, and the answer that it waits for."""

    sock: socket.socket
    viewer: "Viewer"
    is_for_media: bool
    received: bytearray = field(default_factory=bytearray)
    missing: int = 0
    """Of the body; 0: the head is not there."""
    asked_at: float = 0.0


@dataclass(eq=False, slots=True)
class Viewer:
    media: Connection | None = None
    next_media: bytes = b""
    last_media: bytes = b""
    is_busy: bool = False


class Crowd:
    """All viewers of one stream."""

    def __init__(self, port: int, path: str, viewers: int, *, is_low_latency: bool) -> None:
        self._path = path.encode()
        self._folder = self._path.rpartition(b"/")[0] + b"/"
        self._is_low_latency = is_low_latency
        self._epoll = select.epoll()
        self._by_descriptor: dict[int, Connection] = {}
        self._parsed: dict[bytes, Named] = {}
        self._later: list[tuple[float, Connection]] = []
        self.media_answers = 0
        self.media_bytes = 0
        self.playlist_answers = 0
        self.failures: list[str] = []
        self._port = port
        self._viewers = viewers

    def _connect(self, viewer: Viewer, *, is_for_media: bool) -> Connection:
        # When there is something to ask for: the server closes those that ask for nothing, the oldest first.
        sock = socket.create_connection((ADDRESS, self._port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock, viewer, is_for_media)
        self._by_descriptor[sock.fileno()] = connection
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        return connection

    def begin(self) -> None:
        """All ask for the playlist of this moment."""
        for _ in range(self._viewers):
            self._ask(self._connect(Viewer(), is_for_media=False), self._path)

    def run(self, seconds: float) -> None:
        """Watch for so long."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            for descriptor, _ in self._epoll.poll(0.02):
                self._read(self._by_descriptor[descriptor])
            due = [each for each in self._later if each[0] <= now]
            if due:
                self._later = [each for each in self._later if each[0] > now]
                for _, connection in due:
                    self._ask(connection, self._path)

    def _ask(self, connection: Connection, path: bytes) -> None:
        connection.sock.sendall(
            b"GET %s HTTP/1.1\r\nHost: x\r\nUser-Agent: bench\r\nAccept-Encoding: identity\r\n\r\n" % path
        )

    def _read(self, connection: Connection) -> None:
        data = connection.sock.recv(_READ_BYTES)
        if not data:
            raise WrongAnswer("the server has closed a connection")
        if connection.missing:
            # Media is counted and thrown away.
            connection.missing -= len(data)
            if connection.missing == 0:
                self._take_media(connection)
            return
        connection.received += data
        end = connection.received.find(b"\r\n\r\n")
        if end < 0:
            return
        if not connection.received.startswith(b"HTTP/1.1 200 "):
            raise WrongAnswer(bytes(connection.received[:200]).decode("latin-1"))
        length = _LENGTH.search(connection.received)
        if length is None:
            raise WrongAnswer("an answer without a length")
        whole = end + 4 + int(length[1])
        if connection.is_for_media:
            self.media_bytes += int(length[1])
            connection.missing = whole - len(connection.received)
            connection.received.clear()
            if connection.missing == 0:
                self._take_media(connection)
        elif len(connection.received) >= whole:
            body = bytes(connection.received[end + 4 : whole])
            connection.received.clear()
            self._take_playlist(connection, body)

    def _take_media(self, connection: Connection) -> None:
        self.media_answers += 1
        viewer = connection.viewer
        viewer.is_busy = False
        self._fetch(viewer)

    def _take_playlist(self, connection: Connection, body: bytes) -> None:
        self.playlist_answers += 1
        named = self._parsed.get(body)
        if named is None:
            self._parsed.clear()
            named = self._parsed[body] = self._low_latency(body) if self._is_low_latency else self._classic(body)
        viewer = connection.viewer
        viewer.next_media = named.media
        self._fetch(viewer)
        if self._is_low_latency:
            self._ask(connection, named.playlist)
        else:
            self._later.append((time.monotonic() + 1.0, connection))

    def _fetch(self, viewer: Viewer) -> None:
        is_new = viewer.next_media not in (b"", viewer.last_media)
        if is_new and not viewer.is_busy:
            if viewer.media is None:
                viewer.media = self._connect(viewer, is_for_media=True)
            viewer.is_busy = True
            viewer.last_media = viewer.next_media
            self._ask(viewer.media, self._folder + viewer.next_media)
            viewer.next_media = b""

    def _low_latency(self, body: bytes) -> Named:
        hint = re.search(rb'PRELOAD-HINT:TYPE=PART,URI="([^"]+)"', body)
        sequence = re.search(rb"MEDIA-SEQUENCE:(\d+)", body)
        if hint is None or sequence is None:
            raise WrongAnswer("a playlist that names no next part")
        _, _, open_parts = body.rpartition(b"#EXTINF")
        segment = int(sequence[1]) + body.count(b"#EXTINF")
        parts = open_parts.count(b"#EXT-X-PART:")
        return Named(self._path + b"?_HLS_msn=%d&_HLS_part=%d" % (segment, parts), hint[1])

    def _classic(self, body: bytes) -> Named:
        return Named(self._path, [line for line in body.splitlines() if line and not line.startswith(b"#")][-1])


def watch(  # noqa: PLR0917  # as a process is started
    port: int,
    path: str,
    viewers: int,
    is_low_latency: bool,
    seconds: float,
    are_there: multiprocessing.synchronize.Event,
    results: "multiprocessing.queues.Queue[dict[str, Any]]",
) -> None:
    """The body of the process. The first seconds, in which the crowd comes, are not counted."""
    crowd = Crowd(port, path, viewers, is_low_latency=is_low_latency)
    failure = None
    try:
        crowd.begin()
        crowd.run(2.0)
        crowd.media_answers = crowd.media_bytes = crowd.playlist_answers = 0
        are_there.set()
        crowd.run(seconds)
    except (OSError, WrongAnswer) as error:
        failure = f"{type(error).__name__}: {error}"
        are_there.set()
    results.put(
        {
            "media_answers": crowd.media_answers,
            "media_bytes": crowd.media_bytes,
            "playlist_answers": crowd.playlist_answers,
            "failure": failure,
        }
    )
