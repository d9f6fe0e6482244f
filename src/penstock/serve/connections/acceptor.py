"""The acceptor: listeners, and who is let in.

Owns accepting and turning away: limits on connections in all, from one address and from one address per second, and the
descriptors that are kept for files. What a connection does once it is in is not its matter.
"""

import errno
import os
import resource
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from penstock.serve.connections.allowance import AddressAllowances, address_group, is_loopback
from penstock.serve.connections.transport import prepare_socket
from penstock.serve.reactor import READ, Reactor
from penstock.serve.settings import ServerSettings

_BACKLOG: Final = 4096
_ACCEPTS_PER_TURN: Final = 64
_NO_DESCRIPTORS_PAUSE_S: Final = 0.5
RESERVED_DESCRIPTORS: Final = 64
"""Not for connections: logs of streams, recordings and facts open files all the time, and must not fail for a crowd."""
_OUT_OF_DESCRIPTORS: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Accepted(NamedTuple):
    """A socket that was let in. Whoever has it says when it is gone."""

    socket: socket.socket
    address: str
    """Of the peer, with its port."""
    leave: Callable[[], None]


OnAccepted = Callable[[Accepted], None]


class LimitListener(Protocol):
    """Who hears of those that are turned away."""

    def __call__(self, limit: str, detail: str) -> None:
        """Somebody was turned away."""


def raise_descriptor_limit() -> int:
    """Use all descriptors the system allows: each connection and each second of a stream is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _is_reserved(descriptor: int) -> bool:
    """The system gives the smallest number that is free, so the number tells how many may be left."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptor >= limit - min(RESERVED_DESCRIPTORS, limit // 4)


def _newcomers_of(settings: ServerSettings) -> AddressAllowances:
    # As many at once as one address may have in all, so that a crowd behind one router gets in.
    per_s = settings.max_new_connections_per_ip_per_s
    return AddressAllowances(per_s, max(settings.max_connections_per_ip, per_s))


class Acceptor:
    """All listeners of a server."""

    def __init__(self, loop: Reactor, settings: Callable[[], ServerSettings], limit_hit: LimitListener) -> None:
        self._loop = loop
        self._settings = settings
        self._limit_hit = limit_hit
        self._listeners: dict[int, socket.socket] = {}
        self._per_address: Counter[str] = Counter()
        self._newcomers = _newcomers_of(settings())
        self.connections = 0
        """Those that were let in and are not gone."""

    def listen(self, host: str, port: int, on_accepted: OnAccepted) -> int:
        """Accept connections at an address. The port that it became, if 0 was asked for."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._listeners[listener.fileno()] = listener
        self._wait_for(listener, on_accepted)
        return int(listener.getsockname()[1])

    def close(self) -> None:
        """Accept no more."""
        for descriptor, listener in self._listeners.items():
            self._loop.forget(descriptor)
            listener.close()
        self._listeners.clear()

    def _wait_for(self, listener: socket.socket, on_accepted: OnAccepted) -> None:
        self._loop.add(listener.fileno(), READ, lambda _events: self._accept(listener, on_accepted), is_listener=True)

    def _accept(self, listener: socket.socket, on_accepted: OnAccepted) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connection, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    self._pause(listener, on_accepted, os.strerror(error.errno or 0))
                    return
                continue  # the peer was gone before we came to it
            if _is_reserved(connection.fileno()):
                connection.close()
                self._pause(listener, on_accepted, "the rest is reserved for files")
                return
            self._admit(connection, address[0], address[1], on_accepted)
            if self._loop.clock() >= self._loop.turn_ends_at:
                return

    def _pause(self, listener: socket.socket, on_accepted: OnAccepted, reason: str) -> None:
        """Nobody can be let in now: look again in a while instead of spinning."""
        self._limit_hit("descriptors", reason)
        self._loop.remove(listener.fileno())

        def resume() -> None:
            if listener.fileno() in self._listeners:
                self._wait_for(listener, on_accepted)

        self._loop.call_later(_NO_DESCRIPTORS_PAUSE_S, resume)

    def _admit(self, connection: socket.socket, ip: str, port: int, on_accepted: OnAccepted) -> None:
        group = address_group(ip)
        refusal = self._refusal(ip, group)
        if refusal is not None:
            connection.close()
            self._limit_hit(*refusal)
            return
        try:
            prepare_socket(connection, self._settings().notsent_lowat_bytes)
        except OSError:
            connection.close()
            return
        self.connections += 1
        self._per_address[group] += 1
        address = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
        on_accepted(Accepted(connection, address, partial(self._leave, group)))

    def _refusal(self, ip: str, group: str) -> tuple[str, str] | None:
        settings = self._settings()
        if self.connections >= settings.max_connections:
            return "connections", f"{settings.max_connections} are open"
        if settings.exempts_loopback and is_loopback(ip):
            return None
        if self._per_address[group] >= settings.max_connections_per_ip:
            return "connections per address", f"{group} has {settings.max_connections_per_ip}"
        if self._newcomers.per_s != settings.max_new_connections_per_ip_per_s:
            self._newcomers = _newcomers_of(settings)
        if not self._newcomers.admits(group, self._loop.now):
            return "new connections per address", f"{group} opens them too fast"
        return None

    def _leave(self, group: str) -> None:
        self.connections -= 1
        self._per_address[group] -= 1
        if not self._per_address[group]:
            del self._per_address[group]
