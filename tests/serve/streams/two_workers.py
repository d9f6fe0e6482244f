"""Two workers on one fake loop: two brokers, one registry of names, and a link in memory between the two."""

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from penstock.relay.following import ToFollower, ToWriter
from penstock.serve.reactor import Turn
from penstock.serve.settings import AppSettings, ServerSettings
from tests.serve.fake_peer import FakePeer
from tests.serve.fakes import FakeLoop
from tests.serve.streams.stage import Stage
from tests.support.lone_worker import NamesHere

Message = ToWriter | ToFollower
_NO_SOCKET = socket.socket.__new__(socket.socket)


class MemoryLink:
    """One end of a link: what is sent is received in a turn of the loop, unless the link is held up."""

    def __init__(
        self,
        loop: FakeLoop,
        _sock: socket.socket,
        decoder: msgspec.msgpack.Decoder[Message],
        on_message: Callable[[Message, tuple[int, ...]], None],
        on_closed: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._decode = decoder.decode
        self._on_message = on_message
        self._on_closed = on_closed
        self._turn = Turn(self._receive)
        self._received: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self.other: MemoryLink | None = None
        self.is_held_up = False
        self.is_open = True
        self.fault: str | None = None
        self.has_descriptors_left = True
        """Whether the receiving process has any left for those that come."""

    @property
    def pending_bytes(self) -> int:
        """What the other end has not read, if the link is held up."""
        if self.other is None or not self.other.is_held_up:
            return 0
        return 1 << 30 if self.other._received else 0

    def send(self, message: Any, descriptors: Iterable[int] = ()) -> None:
        self.send_body(msgspec.msgpack.encode(message), descriptors)

    def send_body(self, body: bytes, descriptors: Iterable[int] = ()) -> None:
        if self.other is not None and self.other.is_open:
            self.other._received.append((body, tuple(descriptors)))
            self._loop.queue(self.other._turn)

    def _receive(self, _events: int) -> None:
        while self._received and self.is_open and not self.is_held_up:
            body, descriptors = self._received.popleft()
            if not self.has_descriptors_left:
                for descriptor in descriptors:
                    os.close(descriptor)
                descriptors = ()
            self._on_message(self._decode(body), descriptors)

    def go_on(self) -> None:
        self.is_held_up = False
        self._loop.queue(self._turn)

    def close(self) -> None:
        """As a process does that ends: the other end is told."""
        self.is_open = False
        self._discard()
        if self.other is not None and self.other.is_open:
            other, self.other = self.other, None
            other.other = None
            other._receive(0)
            other._discard()
            other.is_open = False
            other._on_closed()

    def _discard(self) -> None:
        """What was not read is lost."""
        for _, descriptors in self._received:
            for descriptor in descriptors:
                os.close(descriptor)
        self._received.clear()


class TwoWorkers:
    """Worker 1 and worker 2."""

    def __init__(
        self,
        app: AppSettings | None = None,
        settings: ServerSettings | None = None,
        names: NamesHere | None = None,
    ) -> None:
        self.loop = FakeLoop()
        self.names = names or NamesHere()
        self.workers = {number: Stage(settings, app, self.names, loop=self.loop, worker=number) for number in (1, 2)}
        self.links: dict[int, MemoryLink] = {}
        self._join()

    def _join(self) -> None:
        for number, stage in self.workers.items():
            self._link(number, stage)
        self.links[1].other, self.links[2].other = self.links[2], self.links[1]
        self.loop.settle()

    def _link(self, number: int, stage: Stage) -> None:
        def make_link(*arguments: Any) -> MemoryLink:
            self.links[number] = MemoryLink(*arguments)
            return self.links[number]

        stage.broker.peers.make_link = make_link  # type: ignore[assignment]
        stage.broker.peers.link(3 - number, _NO_SOCKET)

    def publisher(self, worker: int, name: str = "a") -> FakePeer:
        return self.workers[worker].publisher(name)

    def viewer(self, worker: int, name: str = "a") -> FakePeer:
        return self.workers[worker].viewer(name)

    def kill(self, number: int) -> None:
        """A worker is gone: its link ends, its connections are reset, and the registry hears of it."""
        stage = self.workers[number]
        self.names.now = self.loop.now
        self.links[number].close()
        for connection in list(stage.broker.connections.values()):
            del stage.broker.connections[connection.id]
        self.names.lose(number, self.loop.now)
        self.loop.settle()
