"""Workers without a supervisor process: its registry of names in this one, and a listener on a worker's own loop."""

import socket
from collections import deque
from functools import partial

from penstock.certificates import ReloadableTls
from penstock.control.entrance import Entrance, EntranceLimits, Refusal
from penstock.control.messages import FromWorker
from penstock.control.names import AboutNames, Names, Outgoing
from penstock.serve.reactor import READ
from penstock.serve.server import Arrival, Server
from penstock.serve.streams.registry import Registry


class NamesHere:
    """The registry of names, which answers workers within their calls, or when the test says so."""

    def __init__(self, *, answers_at_once: bool = True) -> None:
        self.names = Names()
        self.now = 0.0
        self._answers_at_once = answers_at_once
        self._answers: deque[Outgoing] = deque()
        self.registries: dict[int, Registry] = {}

    def registry(self, worker: int = 1) -> Registry:
        """What a worker asks."""
        registry = self.registries[worker] = Registry(worker, lambda message: self.tell(worker, message))
        return registry

    def tell(self, worker: int, message: FromWorker) -> None:
        """A worker says something."""
        assert isinstance(message, AboutNames)
        answers = self.names.receive(worker, message, self.now)
        self._answers.extend(answers)
        if self._answers_at_once:
            self.answer()

    def lose(self, worker: int, now: float) -> None:
        """A worker was killed."""
        self.now = now
        del self.registries[worker]
        self._answers.extend(self.names.worker_lost(worker, now))
        self.answer()

    def tick(self, now: float) -> None:
        """Time has passed."""
        self.now = now
        self._answers.extend(self.names.tick(now))
        self.answer()

    def answer(self) -> None:
        """Give all answers, and those that they lead to."""
        while self._answers:
            to, answer = self._answers.popleft()
            if to in self.registries:
                self.registries[to].handle(answer)


def lone_registry() -> Registry:
    """The registry of a worker that is alone."""
    return NamesHere().registry()


def listen(server: Server, tls: ReloadableTls | None = None) -> socket.socket:
    """Accept on loopback, in the worker itself, within its limits. The listener, to be closed when it has ended."""
    entrance = Entrance(_limits_of(server))
    entrance.worker_ready(1)
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.setblocking(False)

    def accept(_events: int) -> None:
        while True:
            try:
                connection, (host, port) = listener.accept()
            except BlockingIOError:
                return
            entrance.apply(_limits_of(server))
            answer = entrance.admit("rtmp", host, port, server.reactor.now)
            if isinstance(answer, Refusal):
                connection.close()
                server.observer.limit_hit(answer.limit, answer.detail)
            else:
                server.take(Arrival(connection, answer.address, partial(entrance.left, answer.number)), tls)

    server.reactor.add(listener.fileno(), READ, accept, is_listener=True)
    return listener


def _limits_of(server: Server) -> EntranceLimits:
    settings = server.broker.settings
    return EntranceLimits(
        settings.max_connections,
        settings.max_connections_per_ip,
        settings.max_new_connections_per_ip_per_s,
        settings.exempts_loopback,
    )


def port_of(listener: socket.socket) -> int:
    """Where it listens."""
    return int(listener.getsockname()[1])
