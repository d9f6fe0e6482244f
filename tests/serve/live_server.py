"""A real server on a loopback port, in a thread of the test, with whatever observers the test wants to see at work."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from penstock.certificates import ReloadableTls
from penstock.serve.reactor import Reactor
from penstock.serve.server import Server
from penstock.serve.settings import AppSettings, ServerSettings
from penstock.serve.streams.observer import Observer, ObserverGroup
from tests.support.lone_worker import listen, lone_registry, port_of
from tests.support.rtmp_driver import DEADLINE_S
from tests.support.samples import AUDIO, VIDEO, Sample

Answer = TypeVar("Answer")

AVC_SETUP = Sample(VIDEO, 0, bytes.fromhex("17 00 000000 01 42c01e ffe1 0004 6742c01e 01 0002 68ce"))
AAC_SETUP = Sample(AUDIO, 0, bytes.fromhex("af 00 1210"))


def key_frame(timestamp_ms: int, size: int = 1000) -> Sample:
    return Sample(VIDEO, timestamp_ms, bytes.fromhex("17 01 000000") + bytes(size - 5))


def inter_frame(timestamp_ms: int, size: int = 1000) -> Sample:
    return Sample(VIDEO, timestamp_ms, bytes.fromhex("27 01 000000") + bytes(size - 5))


def audio_frame(timestamp_ms: int, size: int = 100) -> Sample:
    return Sample(AUDIO, timestamp_ms, bytes.fromhex("af 01") + bytes(size - 2))


class Faults(Observer):
    """Keeps what a test must not pass over: our own bugs."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def error(self, peer: object, error: BaseException) -> None:
        self.errors.append(error)


class LiveServer:
    """The server and its port. `ask` runs something on the server's own thread."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port

    def ask(self, question: Callable[[], Answer]) -> Answer:
        answers: list[Answer] = []
        answered = threading.Event()

        def answer() -> None:
            answers.append(question())
            answered.set()

        self.server.reactor.call_from_thread(answer)
        assert answered.wait(DEADLINE_S)
        return answers[0]


@contextmanager
def live_server(
    *observers: Observer,
    settings: ServerSettings | None = None,
    observers_on: Callable[[Reactor], tuple[Observer, ...]] = lambda _reactor: (),
    tls: ReloadableTls | None = None,
) -> Iterator[LiveServer]:
    """Serve for the length of the block. A bug that an observer or the server met is raised at its end.

    Observers that need the server's reactor are made by `observers_on`, and come first. With
    a certificate it is RTMPS.
    """
    faults = Faults()
    reactor = Reactor(lambda error: observer.error(None, error))
    observer = ObserverGroup(*observers_on(reactor), *observers, faults)
    server = Server(settings or ServerSettings(), lone_registry(), observer, reactor=reactor)
    listener = listen(server, tls)
    thread = threading.Thread(target=server.run, name="live-server")
    thread.start()
    try:
        yield LiveServer(server, port_of(listener))
    finally:
        server.reactor.call_from_thread(server.shut_down)
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
        reactor.close()
        listener.close()
    if faults.errors:
        raise faults.errors[0]


def settings_without_grace() -> ServerSettings:
    """A stream is over when its publisher goes, and a viewer waits for none."""
    app = AppSettings(grace_s=0.0, play_wait_s=0.0)
    return ServerSettings(app=lambda _name: app)


def wait_until(is_so: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Look again and again until something is so."""
    give_up_at = time.monotonic() + deadline_s
    while not is_so():
        assert time.monotonic() < give_up_at, "waited in vain"
        time.sleep(0.01)
