"""Handshakes beside the loop: whatever becomes of one, the loop hears of it exactly once and never does its work."""

import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.certificates import ReloadableTls, load_tls
from penstock.serve.connections.tls import TlsTransport
from penstock.serve.connections.tls_acceptor import TlsAcceptor
from penstock.serve.reactor import Reactor
from tests.support.tls import RECEIVE_BYTES, Contexts, Files, pair, trusting

WAIT_S = 10.0
HALF_A_HELLO = bytes.fromhex("16 0301 0200 01")


@dataclass(slots=True)
class Loop:
    """Stands for the loop: calls what it is asked to, in the thread of the test."""

    calls: queue.SimpleQueue[Callable[[], None]] = field(default_factory=queue.SimpleQueue)
    opened: list[TlsTransport] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def on_open(self, transport: TlsTransport) -> None:
        self.threads.add(threading.current_thread().name)
        self.opened.append(transport)

    def on_failed(self, reason: str) -> None:
        self.threads.add(threading.current_thread().name)
        self.reasons.append(reason)

    def run_once(self) -> None:
        self.calls.get(timeout=WAIT_S)()


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    files = Files.made_in(tmp_path_factory.mktemp("tls"))
    return load_tls(files.cert, files.key), trusting(files.authority)


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    for transport in made.opened:
        transport.close()


@pytest.fixture
def acceptor(loop: Loop) -> Iterator[TlsAcceptor]:
    made = TlsAcceptor(loop.calls.put)
    yield made
    made.close()


@dataclass(frozen=True, slots=True)
class Place:
    """An acceptor, its loop and a certificate."""

    acceptor: TlsAcceptor
    loop: Loop
    contexts: Contexts

    def accept(self, deadline_s: float = WAIT_S, context: ssl.SSLContext | None = None) -> socket.socket:
        """Hand a socket over. The other end, which blocks."""
        ours, theirs = pair()
        theirs.settimeout(WAIT_S)
        on_open, on_failed = self.loop.on_open, self.loop.on_failed
        self.acceptor.accept(ours, context or self.contexts[0], deadline_s, on_open=on_open, on_failed=on_failed)
        return theirs

    def shake_hands(self, theirs: socket.socket) -> ssl.SSLSocket:
        return self.contexts[1].wrap_socket(theirs, server_hostname="localhost")


@pytest.fixture
def place(acceptor: TlsAcceptor, loop: Loop, contexts: Contexts) -> Place:
    return Place(acceptor, loop, contexts)


def test_the_loop_gets_a_transport_that_is_open(place: Place) -> None:
    with place.shake_hands(place.accept()) as client:
        assert place.acceptor.in_handshake == 1
        place.loop.run_once()
        assert place.acceptor.in_handshake == 0
        (transport,) = place.loop.opened
        assert transport.receive(RECEIVE_BYTES) is None
        assert transport.send(b"words") == 5
        assert client.recv(100) == b"words"
    assert place.loop.threads == {threading.current_thread().name}


def test_what_is_said_right_behind_the_handshake_is_not_lost(place: Place) -> None:
    """The last flight of the handshake and the first words come in one piece, and nothing after that."""
    theirs = place.accept()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = place.contexts[1].wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            theirs.sendall(outgoing.read())
            incoming.write(theirs.recv(RECEIVE_BYTES))
    client.write(b"first words")
    theirs.sendall(outgoing.read())
    place.loop.run_once()
    assert place.loop.opened[0].receive(RECEIVE_BYTES) == b"first words"
    theirs.close()


def test_a_handshake_byte_by_byte_is_done_too(place: Place) -> None:
    theirs = place.accept()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = place.contexts[1].wrap_bio(incoming, outgoing, server_hostname="localhost")
    is_done = False
    while not is_done:
        try:
            client.do_handshake()
            is_done = True
        except ssl.SSLWantReadError:
            pass
        for byte in outgoing.read():
            theirs.send(bytes([byte]))
        if not is_done:
            incoming.write(theirs.recv(RECEIVE_BYTES))
    place.loop.run_once()
    assert len(place.loop.opened) == 1
    theirs.close()


class Hesitant(socket.socket):
    """Takes at most 1000 bytes, and nothing each second time, as a full socket does."""

    _is_full = False

    def send(self, data: Any, flags: int = 0, /) -> int:
        self._is_full = not self._is_full
        if self._is_full:
            raise BlockingIOError
        return super().send(memoryview(data)[:1000], flags)


def test_what_a_socket_does_not_take_at_once_is_sent_when_it_does(place: Place) -> None:
    plain, theirs = pair()
    theirs.settimeout(WAIT_S)
    ours = Hesitant(fileno=plain.detach())
    ours.setblocking(False)
    place.acceptor.accept(ours, place.contexts[0], WAIT_S, on_open=place.loop.on_open, on_failed=place.loop.on_failed)
    with place.shake_hands(theirs):
        place.loop.run_once()
    assert len(place.loop.opened) == 1


# Those who do not get that far.


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            b"\x03" + bytes(1536),
            "connection lost: TLS: this looks like plain RTMP; is the port for rtmp:// meant?",
        ),
        (b"GET / HTTP/1.1\r\n", "connection lost: TLS: this looks like plain HTTP"),
        (b"\xff" * 50, "connection lost: TLS: the peer does not speak it; its first byte is 0xff"),
        (bytes.fromhex("16 0301 0004 01020304"), "connection lost: TLS: excessive message size"),
    ],
    ids=["rtmp", "http", "noise", "a hello too large"],
)
def test_one_who_speaks_something_else_is_closed_and_told_apart(place: Place, said: bytes, reason: str) -> None:
    with place.accept() as theirs:
        theirs.sendall(said)
        place.loop.run_once()
        assert place.loop.reasons == [reason]
        assert place.acceptor.in_handshake == 0
        with suppress(ConnectionResetError):
            while theirs.recv(100):
                pass


def test_one_who_hangs_up_is_gone(place: Place) -> None:
    with place.accept() as theirs:
        theirs.sendall(HALF_A_HELLO)
    place.loop.run_once()
    assert place.loop.reasons == ["closed by the peer"]


def test_a_client_that_does_not_trust_us_says_so(place: Place) -> None:
    theirs = place.accept()
    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(theirs, server_hostname="localhost")
    place.loop.run_once()
    assert place.loop.reasons == ["connection lost: TLS: the peer says: unknown ca"]


@pytest.mark.parametrize("said", [b"", HALF_A_HELLO], ids=["nothing", "half a hello"])
def test_a_handshake_that_does_not_end_is_ended(place: Place, said: bytes) -> None:
    with place.accept(deadline_s=0.05) as late, place.accept() as in_time:
        late.sendall(said)
        assert late.recv(100) == b""
        place.loop.run_once()
        assert place.loop.reasons == ["handshake not finished in 0.05 s"]
        assert place.acceptor.in_handshake == 1
        with place.shake_hands(in_time):
            place.loop.run_once()
    assert len(place.loop.opened) == 1


def test_one_who_sends_byte_by_byte_does_not_put_off_its_deadline(place: Place) -> None:
    def trickle(late: socket.socket) -> None:
        late.sendall(bytes.fromhex("16 0301 3fff 01 003ffb"))
        for _ in range(1000):
            late.send(b"\0")
            time.sleep(0.001)

    with place.accept(deadline_s=0.1) as late, pytest.raises(ConnectionError):
        trickle(late)
    place.loop.run_once()
    assert place.loop.reasons == ["handshake not finished in 0.1 s"]


def test_a_bug_costs_one_connection_and_is_told(place: Place, contexts: Contexts) -> None:
    class Broken(ssl.SSLObject):
        def do_handshake(self) -> None:
            raise ZeroDivisionError("oops")

    broken = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broken.sslobject_class = Broken
    with place.accept(context=broken) as theirs, place.accept() as good:
        theirs.sendall(HALF_A_HELLO)
        place.loop.run_once()
        assert place.loop.reasons == ["internal error: ZeroDivisionError('oops')"]
        with place.shake_hands(good):
            place.loop.run_once()
    assert len(place.loop.opened) == 1


# Many at once, reload and the end.


def test_handshakes_of_many_never_run_on_the_loop(tmp_path: Path) -> None:
    """A real loop ticks while a hundred handshakes with RSA, all of which came at one moment, are done beside it."""
    workers: set[str] = set()
    tick_threads: list[str] = []
    ticks_at: list[int] = []

    class Watched(ssl.SSLObject):
        def do_handshake(self) -> None:
            workers.add(threading.current_thread().name)
            super().do_handshake()

    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", key_type=trustme.KeyType.RSA).configure_cert(context)
    context.sslobject_class = Watched
    theirs = trusting(authority)
    loop = Loop()
    errors: list[BaseException] = []
    reactor = Reactor(errors.append)
    acceptor = TlsAcceptor(reactor.call_from_thread)

    def on_failed(reason: str) -> None:
        ticks_at.append(len(tick_threads))
        loop.on_failed(reason)
        if len(loop.reasons) == 100:
            reactor.stop()

    def tick() -> None:
        tick_threads.append(threading.current_thread().name)
        reactor.call_later(0.001, tick)

    def accept_all() -> None:
        for ours, _ in pairs:
            acceptor.accept(ours, context, WAIT_S, on_open=loop.on_open, on_failed=on_failed)

    pairs = []
    for _ in range(100):
        ours, client = pair()
        outgoing = ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            theirs.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
        client.sendall(outgoing.read())
        client.shutdown(socket.SHUT_WR)
        pairs.append((ours, client))
    reactor.call_later(0.0, accept_all)
    reactor.call_later(0.0, tick)
    reactor.call_later(WAIT_S, reactor.stop)
    reactor.run()
    acceptor.close()
    reactor.close()
    assert errors == []
    assert loop.reasons == ["closed by the peer"] * 100
    assert workers == {"penstock-tls"}
    assert len(set(tick_threads)) == 1
    assert ticks_at[-1] > 3
    for _, client in pairs:
        # The answer to its hello, certificate and all.
        assert len(client.recv(RECEIVE_BYTES)) > 1000
        client.close()


def test_a_certificate_that_is_reloaded_holds_for_sockets_that_are_handed_over_later(
    place: Place, tmp_path: Path
) -> None:
    files = Files.made_in(tmp_path)
    first = files.issue()
    tls = ReloadableTls(files.cert, files.key)
    before = place.accept(context=tls.context)
    second = files.issue()
    assert tls.reload()
    after = place.accept(context=tls.context)
    trust = trusting(files.authority)
    seen = []
    for theirs in (before, after):
        with trust.wrap_socket(theirs, server_hostname="localhost") as client:
            seen.append(client.getpeercert(binary_form=True))
        place.loop.run_once()
    wanted = [ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode()) for leaf in (first, second)]
    assert seen == wanted


def test_closing_ends_every_handshake_and_tells_each_once(contexts: Contexts) -> None:
    """One that waits, one that failed and one that is open, of which the loop has not heard yet."""
    loop = Loop()
    place = Place(TlsAcceptor(loop.calls.put), loop, contexts)
    waiting, failing = place.accept(), place.accept()
    waiting.sendall(HALF_A_HELLO)
    failing.sendall(b"GET")
    client = place.shake_hands(place.accept())
    calls = [loop.calls.get(timeout=WAIT_S) for _ in range(2)]
    place.acceptor.close()
    place.acceptor.close()
    for call in calls:
        call()
    assert sorted(loop.reasons) == ["connection lost: TLS: this looks like plain HTTP", *["server shut down"] * 2]
    assert (loop.opened, place.acceptor.in_handshake) == ([], 0)
    assert client.recv(100) == b"", "an end in words"
    assert waiting.recv(100) == b""
    for each in (waiting, failing, client):
        each.close()


def test_an_acceptor_that_was_never_used_closes(loop: Loop) -> None:
    TlsAcceptor(loop.calls.put).close()
    assert loop.reasons == []
