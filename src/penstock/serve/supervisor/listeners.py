"""The listeners: where connections come from, bound here or handed over by systemd.

Owns accepting, in bounded batches, and waiting when descriptors have run out. Who is let in is decided elsewhere.
"""

import errno
import os
import socket
from collections.abc import Callable, Collection, MutableMapping
from typing import Final, NamedTuple

from penstock.errors import ConfigError
from penstock.serve.reactor import READ, Reactor

NAMES: Final = ("rtmp", "rtmps", "http", "https")
_BACKLOG: Final = 4096
_ACCEPTS_PER_TURN: Final = 64
_NO_DESCRIPTORS_PAUSE_S: Final = 0.5
_OUT_OF_DESCRIPTORS: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_FIRST_INHERITED: Final = 3


class Arrival(NamedTuple):
    """One who has come. Whoever is told has the socket from then on."""

    listener: str
    socket: socket.socket
    ip: str
    port: int


def bind(host: str, port: int) -> socket.socket:
    """A listener that nobody else has: without SO_REUSEPORT, a second server is refused."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def inherited_listeners(environment: MutableMapping[str, str], pid: int) -> list[tuple[str, socket.socket]]:
    """What systemd listens at for us (sd_listen_fds(3)), by the FileDescriptorName of each."""
    if environment.get("LISTEN_PID") != str(pid):
        return []
    count = int(environment.get("LISTEN_FDS", "0"))
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    found = []
    for index in range(count):
        name = names[index] if index < len(names) else ""
        if name not in NAMES:
            raise ConfigError(f"socket activation: a socket is named {name!r}: should be one of {', '.join(NAMES)}")
        os.set_inheritable(_FIRST_INHERITED + index, False)
        found.append((name, socket.socket(fileno=_FIRST_INHERITED + index)))
    return found


class Listeners:
    """All listeners of a server. They accept nothing until they are opened."""

    def __init__(
        self, loop: Reactor, on_arrival: Callable[[Arrival], None], on_exhausted: Callable[[str], None]
    ) -> None:
        """`on_exhausted`: no descriptor is left for a connection, and why."""
        self._loop = loop
        self._on_arrival = on_arrival
        self._on_exhausted = on_exhausted
        self._listeners: list[tuple[str, socket.socket]] = []
        self.addresses: dict[str, str] = {}
        """The first of each name, as HOST:PORT."""
        self._is_open = False

    def add(self, name: str, listener: socket.socket) -> tuple[str, int]:
        """Take a listener. Its address, with the port that it became if 0 was asked for."""
        listener.setblocking(False)
        self._listeners.append((name, listener))
        host, port = listener.getsockname()[:2]
        self.addresses.setdefault(name, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return host, port

    def set_open(self, is_open: bool) -> None:
        """Accept, or leave those who come in the kernel's queue."""
        if is_open == self._is_open:
            return
        self._is_open = is_open
        for name, listener in self._listeners:
            if is_open:
                self._wait_for(name, listener)
            else:
                self._loop.forget(listener.fileno())

    def close(self) -> None:
        """Accept no more."""
        self.close_all_but(())

    def close_all_but(self, kept: Collection[str]) -> None:
        """Accept no more but at listeners of these names."""
        was_open = self._is_open
        self.set_open(False)
        for name, listener in self._listeners:
            if name not in kept:
                listener.close()
        self._listeners = [(name, listener) for name, listener in self._listeners if name in kept]
        self.set_open(was_open and bool(self._listeners))

    def _wait_for(self, name: str, listener: socket.socket) -> None:
        self._loop.add(listener.fileno(), READ, lambda _events: self._accept(name, listener), is_listener=True)

    def _accept(self, name: str, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if not self._is_open:
                return
            try:
                connection, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    self._pause(name, listener, os.strerror(error.errno or 0))
                    return
                continue  # the peer was gone before we came to it
            self._on_arrival(Arrival(name, connection, address[0], address[1]))
            if self._loop.clock() >= self._loop.turn_ends_at:
                return

    def _pause(self, name: str, listener: socket.socket, reason: str) -> None:
        """Nobody can be let in now: look again in a while instead of spinning."""
        self._on_exhausted(reason)
        self._loop.forget(listener.fileno())

        def resume() -> None:
            if self._is_open and (name, listener) in self._listeners:
                self._loop.forget(listener.fileno())
                self._wait_for(name, listener)

        self._loop.call_later(_NO_DESCRIPTORS_PAUSE_S, resume)
