"""The server: connections from the acceptor to the broker, the flushes of each round, and a graceful end.

Owns how the parts of the media path are joined, and the order of shutting down.
"""

import itertools
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.protocol.connection import MessageTrace
from penstock.protocol.server_session import ServerSession
from penstock.relay.segment import SegmentStore
from penstock.serve.connections.acceptor import Accepted, Acceptor
from penstock.serve.connections.certificates import ReloadableTls
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.connections.tls_acceptor import TlsAcceptor
from penstock.serve.connections.transport import PlainTransport, Transport
from penstock.serve.logs import get_logger
from penstock.serve.reactor import Reactor
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.fan_out import FanOut
from penstock.serve.streams.flusher import Flusher
from penstock.serve.streams.memfd import best_store
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.reaper import Reaper
from penstock.serve.streams.send_ring import SendRing

_GOODBYE_S: Final = 2.0
_EMPTY_CHECK_S: Final = 0.05


class Server:
    """The media path of one process."""

    def __init__(
        self,
        settings: ServerSettings,
        observer: Observer | None = None,
        store: SegmentStore | None = None,
        ring: SendRing | None = None,
        reactor: Reactor | None = None,
    ) -> None:
        """A reactor is given by who has other users for it; its errors are then theirs to tell the observer."""
        self.observer = observer or Observer()
        self.reactor = reactor or Reactor(self._on_error)
        self.flusher = Flusher(self.reactor, settings.max_flush_wait_s, self._on_error)
        self.broker = Broker(
            settings,
            store or best_store(),
            FanOut(ring),
            loop=self.reactor,
            observer=self.observer,
            mark=self.flusher.mark,
        )
        self.acceptor = Acceptor(self.reactor, lambda: self.broker.settings, self.observer.limit_hit)
        self.tls_acceptor = TlsAcceptor(self.reactor.call_from_thread)
        self._reaper = Reaper(self.broker, self.reactor)
        self.reactor.after_events = self.flusher.flush_dirty
        self._numbers = itertools.count(1)
        self._boot = secrets.token_hex(3)
        self.trace_of: Callable[[str], MessageTrace | None] = lambda _connection_id: None
        """What sessions show their messages to, for debugging."""

    def _on_error(self, error: BaseException) -> None:
        self.observer.error(None, error)

    def listen(self, host: str, port: int, tls: ReloadableTls | None = None) -> int:
        """Serve RTMP at an address, under TLS if there is a certificate. The port that it became, if 0 was asked."""
        return self.acceptor.listen(host, port, self._open_plain if tls is None else partial(self._shake_hands, tls))

    def _open_plain(self, accepted: Accepted) -> None:
        self._open(accepted, PlainTransport(accepted.socket), self.reactor.now)

    def _shake_hands(self, tls: ReloadableTls, accepted: Accepted) -> None:
        """The handshake of TLS is done elsewhere; one deadline holds for it and for that of RTMP."""
        accepted_at = self.reactor.now

        def on_failed(reason: str) -> None:
            accepted.leave()
            self.observer.tls_failed(accepted.address, reason)

        self.tls_acceptor.accept(
            accepted.socket,
            tls.context,
            self.broker.settings.handshake_deadline_s,
            on_open=lambda transport: self._open(accepted, transport, accepted_at),
            on_failed=on_failed,
        )

    def _open(self, accepted: Accepted, transport: Transport, accepted_at: float) -> None:
        connection_id = f"{self._boot}-{next(self._numbers)}"
        session = ServerSession(
            nonce=secrets.token_bytes(1528),
            time_ms=int(time.monotonic() * 1000),
            settings=self.broker.settings.connection,
            trace=self.trace_of(connection_id),
        )
        connection = RtmpConnection(
            connection_id, accepted.address, transport, session, loop=self.reactor, owner=self.broker
        )
        connection.opened_at = accepted_at
        connection.on_close = accepted.leave
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
        """Stop accepting, tell everybody, let them hear it, then leave `run`. Asked a second time: leave at once."""
        if self.broker.is_closing:
            get_logger().info("stopping at once", connections=len(self.broker.connections))
            self.reactor.stop()
            return
        self.acceptor.close()
        self.tls_acceptor.close()
        self.broker.say_goodbye()
        self.reactor.call_later(_GOODBYE_S, self.reactor.stop)
        self._stop_when_empty()

    def _stop_when_empty(self) -> None:
        if not self.broker.connections:
            self.reactor.stop()
        else:
            self.reactor.call_later(_EMPTY_CHECK_S, self._stop_when_empty)

    def _close_everything(self) -> None:
        self.acceptor.close()
        self.tls_acceptor.close()
        for connection in list(self.broker.connections.values()):
            connection.close("server shut down")
        for stream in list(self.broker.streams.values()):
            self.broker.end_stream(stream)
        self.reactor.close()
