"""Outgoing connections on a reactor in the test's own thread, and an owner that keeps what it hears."""

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator

from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import Event
from penstock.rtmp_address import read_address
from penstock.serve.connections.peer_rates import PeerRates
from penstock.serve.outgoing.connection import OutgoingConnection, OutgoingTimeouts, Purpose
from penstock.serve.outgoing.dialer import Dialer, LookUp, look_up
from penstock.serve.outgoing.helper import Helper
from penstock.serve.outgoing.words import Failure
from penstock.serve.reactor import Reactor
from tests.support.rtmp_driver import DEADLINE_S


class KeepingOwner:
    """Keeps what it hears; what it does with room is the test's matter."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.failures: list[Failure] = []
        self.bugs: list[Exception] = []
        self.is_ready = False
        self.with_room: Callable[[OutgoingConnection], None] = lambda _connection: None

    def on_ready(self, _connection: OutgoingConnection) -> None:
        self.is_ready = True

    def on_event(self, _connection: OutgoingConnection, event: Event) -> None:
        self.events.append(event)

    def on_room(self, connection: OutgoingConnection) -> None:
        self.with_room(connection)

    def on_closed(self, _connection: OutgoingConnection, failure: Failure) -> None:
        self.failures.append(failure)

    def on_bug(self, error: Exception) -> None:
        self.bugs.append(error)


class Stage:
    """A reactor with a dialer."""

    def __init__(self, reactor: Reactor, dialer: Dialer) -> None:
        self.reactor = reactor
        self.dialer = dialer

    def open(
        self,
        url: str,
        purpose: Purpose,
        owner: KeepingOwner,
        timeouts: OutgoingTimeouts | None = None,
        secrets: tuple[str, ...] = (),
        *,
        rates: PeerRates | None = None,
    ) -> OutgoingConnection:
        self.reactor.now = self.reactor.clock()
        settings = ConnectionSettings()
        address = read_address(url)
        return OutgoingConnection(
            self.dialer, address, purpose, owner, settings=settings, timeouts=timeouts, secrets=secrets, rates=rates
        )

    def run_until(self, is_so: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
        """Serve until something is so."""
        give_up_at = time.monotonic() + deadline_s

        def look() -> None:
            if is_so() or time.monotonic() > give_up_at:
                self.reactor.stop()
            else:
                self.reactor.call_later(0.005, look)

        self.reactor.now = self.reactor.clock()
        self.reactor.call_later(0.0, look)
        self.reactor.run()
        assert is_so(), "waited in vain"


@contextlib.contextmanager
def stage(
    *,
    make_context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    look_up: LookUp = look_up,
) -> Iterator[Stage]:
    errors: list[BaseException] = []
    reactor = Reactor(errors.append)
    helper = Helper(reactor.call_from_thread)
    dialer = Dialer(reactor, helper, notsent_lowat_bytes=128 * 1024, look_up=look_up, make_context=make_context)
    try:
        yield Stage(reactor, dialer)
    finally:
        helper.close()
        reactor.close()
    if errors:
        raise errors[0]
