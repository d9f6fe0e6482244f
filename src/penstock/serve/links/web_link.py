"""A worker's link to the web process, whichever process that is now.

Owns the link while there is one, and who is told what comes by it. Web may be killed and started again at any time:
what was sent to the one before may be lost, and whoever needs an answer asks again when the next one is linked.
"""

import socket
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from penstock.control.live import WebToWorker, WorkerToWeb
from penstock.serve.links.link import Link
from penstock.serve.reactor import Loop

_DECODER: Final[msgspec.msgpack.Decoder[WebToWorker]] = msgspec.msgpack.Decoder(WebToWorker)
_M = TypeVar("_M")


class WebLink:
    """What this worker and web tell each other."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._link: Link[WebToWorker] | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {}
        self.on_linked: list[Callable[[], None]] = []
        """Called when there is a new web process, which knows nothing yet."""

    @property
    def is_open(self) -> bool:
        """Whether there is a web process."""
        return self._link is not None

    @property
    def is_congested(self) -> bool:
        """Whether what can wait or be left out should; also while there is no web process."""
        return self._link is None or self._link.is_congested

    def handle(self, kind: type[_M], handler: Callable[[_M], None]) -> None:
        """Have messages of a kind heard. What nobody hears is dropped."""
        self._handlers[kind] = handler

    def take(self, sock: socket.socket) -> None:
        """There is a new web process at the other end of this socket."""
        self.close()
        self._link = Link(self._loop, sock, _DECODER, self._on_message, self._on_lost)
        for tell in self.on_linked:
            tell()

    def send(self, message: WorkerToWeb, descriptors: Iterable[int] = ()) -> bool:
        """False: there is no web process, and the descriptors stay with whoever called."""
        if self._link is None:
            return False
        self._link.send(message, descriptors)
        return True

    def close(self) -> None:
        """End it from this side."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _on_message(self, message: WebToWorker, _descriptors: tuple[int, ...]) -> None:
        handler = self._handlers.get(type(message))
        if handler is not None:
            handler(message)

    def _on_lost(self) -> None:
        self._link = None
