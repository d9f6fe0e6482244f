"""A server in a thread of its own around our server sessions, for tests.

Test equipment, not a server to use: one viewer that stops reading holds up all others, and every message is kept in
memory up to a bound. Grants whatever is asked unless told otherwise, and passes what a publisher sends on to all who
play the name, from its first message whenever they come. Every wait has a deadline.
"""

import os
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.errors import ProtocolViolation
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import (
    ConnectRequested,
    DataReceived,
    Event,
    MediaReceived,
    PlayEnded,
    PlayRequested,
    PublishEnded,
    PublishRequested,
)
from penstock.protocol.handshake import NONCE_BYTES
from penstock.protocol.server_session import ServerSession
from tests.support.rtmp_driver import DEADLINE_S, LOOPBACK, RECEIVE_BYTES, DriverError, EventKind, send_sample
from tests.support.samples import DATA, Sample
from tests.support.session_runs import events_of

MAX_STORED_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Refusals:
    """What the server refuses, each with the description that the client is to show."""

    connect: str | None = None
    publish: str | None = None
    play: str | None = None


@dataclass(slots=True)
class Publication:
    """All that was published under a name, last."""

    samples: list[Sample] = field(default_factory=list)
    is_over: bool = False


@dataclass(slots=True, eq=False)
class Peer:
    """One client of the server."""

    socket: socket.socket
    session: ServerSession
    events: list[Event] = field(default_factory=list)
    """All but audio, video and data."""
    played: dict[int, str] = field(default_factory=dict)
    """Message stream id to name."""
    published: dict[int, Publication] = field(default_factory=dict)

    def flush(self) -> None:
        self.socket.sendall(self.session.data_to_send())


class RtmpServer:
    """A relay in one thread. Tests read `peers` and `publications`; they change while the thread runs."""

    def __init__(self, refusals: Refusals, settings: ConnectionSettings) -> None:
        self.peers: list[Peer] = []
        """All that ever connected, in order."""
        self.publications: dict[str, Publication] = {}
        self.faults: list[Exception] = []
        self._refusals = refusals
        self._settings = settings
        self._stored_bytes = 0
        self._changed = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((LOOPBACK, 0))
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="rtmp-server")

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def url(self, name: str) -> str:
        """The address of a stream."""
        return f"rtmp://{LOOPBACK}:{self.port}/live/{name}"

    def events(self, kind: type[EventKind]) -> list[EventKind]:
        """All events of one kind so far, of all peers."""
        return [event for peer in list(self.peers) for event in list(peer.events) if isinstance(event, kind)]

    def samples(self, name: str) -> list[Sample]:
        """What was published under a name so far."""
        return list(self.publications[name].samples) if name in self.publications else []

    def wait_for(self, kind: type[EventKind], count: int = 1, deadline_s: float = DEADLINE_S) -> list[EventKind]:
        """Return all events of one kind once there are `count` of them."""
        with self._changed:
            self._changed.wait_for(lambda: self.faults or len(self.events(kind)) >= count, deadline_s)
        found = self.events(kind)
        if len(found) < count:
            seen = [event for peer in self.peers for event in peer.events]
            raise DriverError(f"waited in vain for {count} {kind.__name__}; had {seen} and faults {self.faults}")
        return found

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and all connections; raise the first fault that there was."""
        self._wake_writer.send(b"\0")
        self._thread.join(DEADLINE_S)
        is_stuck = self._thread.is_alive()
        for each in (self._wake_writer, self._wake_reader, self._listener, *(peer.socket for peer in self.peers)):
            each.close()
        self._selector.close()
        if is_stuck:
            raise DriverError(f"the server's thread did not end within {DEADLINE_S} s")
        if self.faults:
            raise self.faults[0]

    def _run(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._wake_reader:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._read(key.data)
                with self._changed:
                    self._changed.notify_all()
        except Exception as fault:  # shown by stop(), in the thread of the test
            self.faults.append(fault)
            with self._changed:
                self._changed.notify_all()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(DEADLINE_S)
        session = ServerSession(nonce=os.urandom(NONCE_BYTES), time_ms=0, settings=self._settings)
        peer = Peer(connection, session)
        self.peers.append(peer)
        self._selector.register(connection, selectors.EVENT_READ, peer)

    def _read(self, peer: Peer) -> None:
        try:
            data = peer.socket.recv(RECEIVE_BYTES)
        except ConnectionError:
            data = b""
        try:
            if data:
                peer.session.receive_data(data)
            else:
                peer.session.receive_eof()
                self._selector.unregister(peer.socket)
            for event in events_of(peer.session, peer.socket.sendall):
                self._handle(peer, event)
        except ProtocolViolation as fault:
            self.faults.append(fault)
            self._selector.unregister(peer.socket)
            peer.socket.close()
            return
        if data:
            self._flush(peer)

    def _flush(self, peer: Peer) -> None:
        try:
            peer.flush()
        except ConnectionError:
            # The end is heard of by the next read, which tells the session.
            peer.played.clear()

    def _handle(self, peer: Peer, event: Event) -> None:
        match event:
            case MediaReceived():
                sample = Sample(event.type_id, event.timestamp_ms, event.payload)
                self._relay(peer.published[event.stream_id], sample)
                return
            case DataReceived():
                self._relay(peer.published[event.stream_id], Sample(DATA, event.timestamp_ms, event.payload))
                return
            case ConnectRequested():
                self._on_connect(peer)
            case PublishRequested():
                self._on_publish(peer, event)
            case PlayRequested():
                self._on_play(peer, event)
            case PublishEnded():
                self._on_publish_ended(peer, event)
            case PlayEnded():
                peer.played.pop(event.stream_id, None)
            case _:
                pass
        peer.events.append(event)

    def _on_connect(self, peer: Peer) -> None:
        if self._refusals.connect is None:
            peer.session.accept_connect()
            return
        peer.session.reject_connect(self._refusals.connect)
        self._flush(peer)
        # The other half stays open until the peer closes: a close with bytes unread would reset the connection, and
        # the answer with it.
        peer.socket.shutdown(socket.SHUT_WR)

    def _on_publish(self, peer: Peer, event: PublishRequested) -> None:
        if self._refusals.publish is not None:
            peer.session.reject_publish(event.stream_id, self._refusals.publish)
            return
        peer.session.accept_publish(event.stream_id)
        self.publications[event.name] = peer.published[event.stream_id] = Publication()
        for viewer, stream_id in self._viewers(self.publications[event.name]):
            viewer.session.notify_published(stream_id)
            self._flush(viewer)

    def _on_play(self, peer: Peer, event: PlayRequested) -> None:
        if self._refusals.play is not None:
            peer.session.reject_play(event.stream_id, self._refusals.play)
            return
        peer.session.accept_play(event.stream_id, is_reset=event.is_reset)
        publication = self.publications.get(event.name)
        for sample in publication.samples if publication is not None else ():
            send_sample(peer.session, event.stream_id, sample)
        if publication is not None and publication.is_over:
            peer.session.end_play(event.stream_id)
        else:
            peer.played[event.stream_id] = event.name

    def _on_publish_ended(self, peer: Peer, event: PublishEnded) -> None:
        publication = peer.published.pop(event.stream_id, None)
        if publication is None:
            return
        for viewer, stream_id in self._viewers(publication):
            viewer.session.end_play(stream_id)
            viewer.played.pop(stream_id)
            self._flush(viewer)
        publication.is_over = True

    def _relay(self, publication: Publication, sample: Sample) -> None:
        self._stored_bytes += len(sample.payload)
        if self._stored_bytes > MAX_STORED_BYTES:
            raise DriverError(f"{self._stored_bytes} bytes published; at most {MAX_STORED_BYTES} are kept")
        publication.samples.append(sample)
        for viewer, stream_id in self._viewers(publication):
            send_sample(viewer.session, stream_id, sample)
            self._flush(viewer)

    def _viewers(self, publication: Publication) -> list[tuple[Peer, int]]:
        return [
            (peer, stream_id)
            for peer in self.peers
            for stream_id, name in peer.played.items()
            if self.publications.get(name) is publication
        ]


@contextmanager
def rtmp_server(
    *, refusals: Refusals | None = None, chunk_size: int = 4096, window_bytes: int = 2_500_000
) -> Iterator[RtmpServer]:
    """Serve for the length of the block. A peer that broke RTMP, or a fault of the server, is raised at its end."""
    settings = ConnectionSettings(chunk_size=chunk_size, window_bytes=window_bytes, peer_bandwidth_bytes=window_bytes)
    server = RtmpServer(refusals or Refusals(), settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()
