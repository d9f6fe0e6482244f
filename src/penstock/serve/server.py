"""The media path of one worker: connections it is given, the flushes of each round, and a graceful end.

Owns how the parts of the media path are joined, and the order of shutting down.
"""

import itertools
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from penstock.certificates import ReloadableTls
from penstock.logs import get_logger
from penstock.protocol.connection import MessageTrace
from penstock.protocol.server_session import ServerSession
from penstock.relay.segment import SegmentStore
from penstock.serve.connections.descriptors import is_reserved
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.connections.tls import TlsTransport
from penstock.serve.connections.tls_acceptor import TlsAcceptor
from penstock.serve.connections.transport import PlainTransport, Transport, prepare_socket
from penstock.serve.reactor import Reactor
from penstock.serve.sending.fan_out import FanOut
from penstock.serve.sending.memfd import best_store
from penstock.serve.sending.send_ring import SendRing
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.flusher import Flusher
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.reaper import Reaper
from penstock.serve.streams.registry import Registry

_GOODBYE_S: Final = 2.0
_EMPTY_CHECK_S: Final = 0.05
_ASKED_AT_ONCE: Final = 50
_ASK_PAUSE_S: Final = 0.01


class Arrival(NamedTuple):
    """A connection that was let in. Whoever has it says when it is gone."""

    socket: socket.socket
    address: str
    """Of the peer, with its port."""
    leave: Callable[[], None]


class Server:
    """The media path of one process."""

    def __init__(
        self,
        settings: ServerSettings,
        registry: Registry,
        observer: Observer | None = None,
        *,
        store: SegmentStore | None = None,
        ring: SendRing | None = None,
        reactor: Reactor | None = None,
    ) -> None:
        """A reactor is given by who has other users for it: its errors are then theirs to tell, and its end is too."""
        self.observer = observer or Observer()
        self.reactor = reactor or Reactor(self._on_error)
        self._has_own_reactor = reactor is None
        self.fan_out = FanOut(ring)
        self.flusher = Flusher(self.reactor, self.fan_out, settings.max_flush_wait_s, self._on_error)
        self.broker = Broker(
            settings,
            store or best_store(),
            self.fan_out,
            loop=self.reactor,
            observer=self.observer,
            registry=registry,
            mark=self.flusher.mark,
            show=self.flusher.show,
        )
        self.tls_acceptor = TlsAcceptor(self.reactor.call_from_thread)
        self._reaper = Reaper(self.broker, self.reactor)
        self.reactor.after_events = self._finish_round
        self._numbers = itertools.count(1)
        self.boot = secrets.token_hex(3)
        """How the names of its connections begin."""
        self.trace_of: Callable[[str], MessageTrace | None] = lambda _connection_id: None
        """What sessions show their messages to, for debugging."""

    def _finish_round(self) -> None:
        self.flusher.flush_dirty()
        self.broker.peers.finish_round()

    def _on_error(self, error: BaseException) -> None:
        self.observer.error(None, error)

    def take(self, arrival: Arrival, tls: ReloadableTls | None = None) -> None:
        """Serve RTMP to a connection, under TLS if there is a certificate."""
        if is_reserved(arrival.socket.fileno()):
            self.observer.limit_hit("descriptors", "the rest is reserved for files")
        elif not self.broker.is_closing and self.prepare(arrival.socket):
            if tls is None:
                self._open(arrival, PlainTransport(arrival.socket), self.reactor.now)
            else:
                accepted_at = self.reactor.now
                self.shake_hands(arrival, tls, lambda transport: self._open(arrival, transport, accepted_at))
            return
        arrival.socket.close()
        arrival.leave()

    def prepare(self, connection: socket.socket) -> bool:
        """Set what every socket needs that media is sent to. False: the peer is gone."""
        try:
            prepare_socket(connection, self.broker.settings.notsent_lowat_bytes)
        except OSError:
            return False  # the peer is gone
        return True

    def shake_hands(self, arrival: Arrival, tls: ReloadableTls, on_open: Callable[[TlsTransport], None]) -> None:
        """The handshake of TLS is done in another thread; one deadline holds for it and for that of RTMP."""

        def on_failed(reason: str) -> None:
            arrival.leave()
            self.observer.tls_failed(arrival.address, reason)

        self.tls_acceptor.accept(
            arrival.socket,
            tls.context,
            self.broker.settings.handshake_deadline_s,
            on_open=on_open,
            on_failed=on_failed,
        )

    def _open(self, arrival: Arrival, transport: Transport, accepted_at: float) -> None:
        connection_id = f"{self.boot}-{next(self._numbers)}"
        session = ServerSession(
            nonce=secrets.token_bytes(1528),
            time_ms=int(time.monotonic() * 1000),
            settings=self.broker.settings.connection,
            trace=self.trace_of(connection_id),
        )
        connection = RtmpConnection(
            connection_id, arrival.address, transport, session, loop=self.reactor, owner=self.broker
        )
        connection.opened_at = accepted_at
        connection.on_close = arrival.leave
        self.broker.connections[connection_id] = connection
        self.observer.connection_opened(connection)

    def run(self) -> None:
        """Serve until `shut_down`."""
        self._reaper.start()
        try:
            self.reactor.run()
        finally:
            self._close_everything()

    def shut_down(self) -> None:
        """Take nobody any more, tell everybody, let them hear it, then leave `run`. Asked again: leave at once."""
        if self.broker.is_closing:
            get_logger().info("stopping at once", connections=len(self.broker.connections))
            self.reactor.stop()
            return
        self.tls_acceptor.close()
        self.broker.say_goodbye()
        self.reactor.call_later(_GOODBYE_S, self.reactor.stop)
        self._stop_when_empty()

    def ask_to_reconnect(self) -> None:
        """Ask all who can to come back elsewhere, a few at a time: they do not all come at once, and nobody waits."""
        self._ask_next(iter(list(self.broker.connections.values())))

    def _ask_next(self, connections: Iterator[MediaConnection]) -> None:
        some = list(itertools.islice(connections, _ASKED_AT_ONCE))
        for connection in some:
            self.broker.ask_to_reconnect(connection)
        if some:
            self.reactor.call_later(_ASK_PAUSE_S, lambda: self._ask_next(connections))

    def drain(self, within_s: float) -> None:
        """Let those who are there go on until they leave, or until they are told to, after a while."""
        self.reactor.call_later(within_s, self.shut_down)
        self._stop_when_empty()

    def _stop_when_empty(self) -> None:
        if not self.broker.connections:
            self.reactor.stop()
        else:
            self.reactor.call_later(_EMPTY_CHECK_S, self._stop_when_empty)

    def _close_everything(self) -> None:
        self.tls_acceptor.close()
        for connection in list(self.broker.connections.values()):
            connection.close("server shut down")
        for stream in list(self.broker.streams.values()):
            self.broker.table.end_stream(stream)
        self.broker.peers.finish_round()
        self.broker.peers.close()
        if self._has_own_reactor:
            self.reactor.close()
