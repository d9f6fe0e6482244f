"""The server: listeners, limits on who gets in, the once-a-second sweep, and a graceful end.

Owns accepting and turning away, and the order of shutting down. What connections do is `broker`'s matter.
"""

import errno
import itertools
import os
import resource
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_address

from penstock.protocol.connection import MessageTrace
from penstock.protocol.server_session import ServerSession
from penstock.relay.segment import SegmentStore
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.connections.transport import PlainTransport, Transport, prepare_socket
from penstock.serve.reactor import READ, Reactor
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.fan_out import FanOut
from penstock.serve.streams.memfd import best_store
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.reaper import Reaper
from penstock.serve.streams.send_ring import SendRing

_BACKLOG = 4096
_ACCEPTS_PER_TURN = 64
_SWEEP_INTERVAL_S = 1.0
_NO_DESCRIPTORS_PAUSE_S = 0.5
_RESERVED_DESCRIPTORS = 64
"""Not for connections: logs of streams, recordings and facts open files all the time, and must not fail for a crowd."""
_GOODBYE_S = 2.0
_OUT_OF_DESCRIPTORS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))

TransportFactory = Callable[[socket.socket], Transport]


def raise_descriptor_limit() -> int:
    """Use all descriptors the system allows: each connection and each second of a stream is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _is_reserved(descriptor: int) -> bool:
    """The system gives the smallest number that is free, so the number tells how many may be left."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptor >= limit - min(_RESERVED_DESCRIPTORS, limit // 4)


class Server:
    """Everything that runs in one process."""

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
        self.reactor = reactor or Reactor(lambda error: self.observer.error(None, error))
        self.broker = Broker(settings, store or best_store(), FanOut(ring), self.reactor, self.observer)
        self._reaper = Reaper(self.broker)
        self.reactor.after_events = self.broker.flusher.flush_dirty
        self._listeners: dict[int, tuple[socket.socket, TransportFactory]] = {}
        self._peer_numbers = itertools.count(1)
        self._connections_per_ip: Counter[str] = Counter()
        self._boot = secrets.token_hex(3)
        self.trace_of: Callable[[str], MessageTrace | None] = lambda _peer_id: None
        """What sessions show their messages to, for debugging."""

    def listen(self, host: str, port: int, factory: TransportFactory = PlainTransport) -> int:
        """Accept connections at an address. The port that it became, if 0 was asked for."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._listeners[listener.fileno()] = (listener, factory)
        self.reactor.add(listener.fileno(), READ, lambda _events: self._accept(listener, factory))
        return int(listener.getsockname()[1])

    def run(self) -> None:
        """Serve until `shut_down`."""
        self._sweep_later()
        try:
            self.reactor.run()
        finally:
            self._close_everything()

    def shut_down(self) -> None:
        """Stop accepting, tell everybody, let them hear it, then leave `run`."""
        broker = self.broker
        if broker.is_closing:
            self.reactor.stop()
            return
        self._stop_listening()
        broker.say_goodbye()
        self.reactor.call_later(_GOODBYE_S, self.reactor.stop)
        self._stop_when_empty()

    def _stop_when_empty(self) -> None:
        if not self.broker.connections:
            self.reactor.stop()
        else:
            self.reactor.call_later(0.05, self._stop_when_empty)

    def _sweep_later(self) -> None:
        self.reactor.call_later(_SWEEP_INTERVAL_S, self._sweep)

    def _sweep(self) -> None:
        self._sweep_later()
        self._reaper.sweep()

    # Accepting.

    def _accept(self, listener: socket.socket, factory: TransportFactory) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connection, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    self._pause_accepting(listener, factory, os.strerror(error.errno or 0))
                    return
                continue  # the peer was gone before we came to it
            if _is_reserved(connection.fileno()):
                connection.close()
                self._pause_accepting(listener, factory, "the rest is reserved for files")
                return
            self._admit(connection, address, factory)

    def _pause_accepting(self, listener: socket.socket, factory: TransportFactory, reason: str) -> None:
        """Nobody can be let in now: look again in a while instead of spinning."""
        self.observer.limit_hit("descriptors", reason)
        self.reactor.remove(listener.fileno())

        def resume() -> None:
            if listener.fileno() in self._listeners:
                self.reactor.add(listener.fileno(), READ, lambda _events: self._accept(listener, factory))

        self.reactor.call_later(_NO_DESCRIPTORS_PAUSE_S, resume)

    def _admit(self, connection: socket.socket, address: tuple[str, int], factory: TransportFactory) -> None:
        ip, port = address[0], address[1]
        settings = self.broker.settings
        reason = None
        if len(self.broker.connections) >= settings.max_connections:
            reason = ("connections", f"{settings.max_connections} are open")
        elif self._connections_per_ip[ip] >= settings.max_connections_per_ip and not (
            settings.exempts_loopback and ip_address(ip).is_loopback
        ):
            reason = ("connections per address", f"{ip} has {settings.max_connections_per_ip}")
        if reason is not None:
            connection.close()
            self.observer.limit_hit(*reason)
            return
        try:
            prepare_socket(connection, settings.notsent_lowat_bytes)
            transport = factory(connection)
        except OSError:
            connection.close()
            return
        self._open_peer(transport, ip, port)

    def _open_peer(self, transport: Transport, ip: str, port: int) -> None:
        peer_id = f"{self._boot}-{next(self._peer_numbers)}"
        session = ServerSession(
            nonce=secrets.token_bytes(1528),
            time_ms=int(time.monotonic() * 1000),
            settings=self.broker.settings.connection,
            trace=self.trace_of(peer_id),
        )
        peer = RtmpConnection(peer_id, f"{ip}:{port}", transport, session, self.broker)
        self.broker.connections[peer_id] = peer
        self._connections_per_ip[ip] += 1
        peer.on_close = lambda: self._forget_ip(ip)
        self.observer.connection_opened(peer)

    def _forget_ip(self, ip: str) -> None:
        self._connections_per_ip[ip] -= 1
        if not self._connections_per_ip[ip]:
            del self._connections_per_ip[ip]

    # The end.

    def _stop_listening(self) -> None:
        for descriptor, (listener, _) in list(self._listeners.items()):
            self.reactor.forget(descriptor)
            listener.close()
        self._listeners.clear()

    def _close_everything(self) -> None:
        self._stop_listening()
        for peer in list(self.broker.connections.values()):
            peer.close("server shut down")
        for live_stream in list(self.broker.live_streams.values()):
            self.broker.end_stream(live_stream)
        self.reactor.close()
