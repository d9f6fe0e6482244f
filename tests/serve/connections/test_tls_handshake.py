"""The TLS handshake: any cut, peers that speak something else, and bounds on what may come before it is done."""

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.certificates import load_tls
from penstock.serve.connections.tls_handshake import TlsHandshake
from tests.support.cuts import by_size, random_cuts, whole
from tests.support.tls import RECEIVE_BYTES, Client, Contexts, Ends, Files, meet, pair, trusting

CUTS: dict[str, Callable[[bytes], list[bytes]]] = {
    "whole": whole,
    "byte by byte": lambda data: by_size(data, 1),
    "by 7": lambda data: by_size(data, 7),
    "by 128": lambda data: by_size(data, 128),
    "random": lambda data: random_cuts(data, 1),
}
# A ClientHello of TLS 1.0 with one cipher suite and no extension.
OLD_HELLO = bytes.fromhex("16 0301 002d 01 000029 0301") + bytes(32) + bytes.fromhex("00 0002 c014 01 00")
# A record of 16,384 bytes in which a ClientHello of 65,535 begins.
ENDLESS_HELLO = bytes.fromhex("16 0301 4000 01 00ffff 0303") + bytes(16_384 - 6)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    files = Files.made_in(tmp_path_factory.mktemp("tls"))
    return load_tls(files.cert, files.key), trusting(files.authority)


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The server's and the client's."""
    ours, theirs = pair()
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("cut", CUTS)
def test_the_handshake_is_the_same_however_it_is_cut(tmp_path: Path, version: ssl.TLSVersion, cut: str) -> None:
    files = Files.made_in(tmp_path)
    theirs = trusting(files.authority)
    theirs.minimum_version = theirs.maximum_version = version
    handshake, client = meet((load_tls(files.cert, files.key), theirs))
    assert client.shake_hands(handshake, CUTS[cut]) or client.lead(handshake, CUTS[cut])
    ends = Ends(handshake.transport(), client)
    client.tls.write(b"first words")
    assert b"".join(client.pass_on(ends.transport, CUTS[cut])) == b"first words"
    assert ends.transport.send(b"answer") == 6
    client.take()
    assert client.heard() == b"answer"
    ends.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_ticket_makes_the_next_handshake_a_short_one(tmp_path: Path, version: ssl.TLSVersion) -> None:
    files = Files.made_in(tmp_path)
    ours, theirs = load_tls(files.cert, files.key), trusting(files.authority)
    theirs.minimum_version = theirs.maximum_version = version
    session, was_reused = None, []
    for _ in range(2):
        handshake, client = meet((ours, theirs))
        client.tls = theirs.wrap_bio(client.incoming, client.outgoing, server_hostname="localhost", session=session)
        assert client.shake_hands(handshake) or client.lead(handshake)
        ends = Ends(handshake.transport(), client)
        ends.transport.send(b"words")
        client.take()
        assert client.heard() == b"words"
        session = client.tls.session
        was_reused.append(client.tls.session_reused)
        ends.close()
    assert was_reused == [False, True]


def test_a_step_that_the_socket_does_not_take_is_owed(
    contexts: Contexts, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    with suppress(BlockingIOError):
        while True:
            ours.send(bytes(512))
    handshake, client = TlsHandshake(ours, contexts[0]), Client(theirs, contexts[1])
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    assert not client.lead(handshake)
    assert handshake.is_owing
    while handshake.is_owing:
        theirs.recv(512)
        assert not handshake.proceed()


def test_a_handshake_is_not_done_before_its_tickets_are_sent(
    contexts: Contexts, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    handshake, client = TlsHandshake(ours, contexts[0]), Client(theirs, contexts[1])
    client.shake_hands(handshake)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    with suppress(BlockingIOError):
        while True:
            ours.send(bytes(512))
    assert not client.lead(handshake)
    assert handshake.is_owing
    steps = 0
    while not handshake.proceed():
        theirs.recv(512)
        steps += 1
    assert steps > 0
    assert not handshake.is_owing


def test_old_versions_are_refused_and_told_so(contexts: Contexts, sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    theirs.send(OLD_HELLO)
    with pytest.raises(OSError, match=r"^TLS: unsupported protocol$"):
        TlsHandshake(ours, contexts[0]).proceed()
    assert theirs.recv(100) == bytes.fromhex("15 0301 0002 02 46")


@pytest.mark.parametrize(
    ("first_bytes", "words"),
    [
        (b"\x03" + bytes(1536), "this looks like plain RTMP; is the port for rtmp:// meant?"),
        (b"\x03", "this looks like plain RTMP; is the port for rtmp:// meant?"),
        (b"\x06" + bytes(1536), "this looks like plain RTMP; is the port for rtmp:// meant?"),
        (b"GET / HTTP/1.1\r\n", "this looks like plain HTTP"),
        (b"POST /open/1 HTTP/1.1\r\n", "this looks like plain HTTP"),
        (b"G", "this looks like plain HTTP"),
        (b"\x80\x2e\x01\x00\x02", "the peer does not speak it; its first byte is 0x80"),
        (b"Hello", "the peer does not speak it; its first byte is 0x48"),
    ],
)
def test_a_peer_without_tls_is_told_apart(
    contexts: Contexts, sockets: tuple[socket.socket, socket.socket], first_bytes: bytes, words: str
) -> None:
    ours, theirs = sockets
    theirs.send(first_bytes)
    with pytest.raises(OSError, match=f"^{re.escape(f'TLS: {words}')}$"):
        TlsHandshake(ours, contexts[0]).proceed()


def test_a_client_that_does_not_trust_us_says_so(
    contexts: Contexts, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    handshake, client = TlsHandshake(ours, contexts[0]), Client(theirs, ssl.create_default_context())
    with pytest.raises(ssl.SSLCertVerificationError):
        client.shake_hands(handshake)
    with pytest.raises(OSError, match=r"^TLS: the peer says: unknown ca$"):
        client.lead(handshake)


def test_one_who_hangs_up_on_the_way_is_gone(contexts: Contexts, sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    handshake = TlsHandshake(ours, contexts[0])
    theirs.send(OLD_HELLO[:20])
    assert not handshake.proceed()
    theirs.close()
    with pytest.raises(EOFError):
        handshake.proceed()


@pytest.mark.parametrize("size", [1000, RECEIVE_BYTES])
def test_a_hello_that_does_not_end_is_refused_after_16_kilobytes(
    contexts: Contexts, sockets: tuple[socket.socket, socket.socket], size: int
) -> None:
    ours, theirs = sockets
    handshake = TlsHandshake(ours, contexts[0])
    pieces = by_size(ENDLESS_HELLO, size)
    for piece in pieces[:-1]:
        theirs.send(piece)
        assert not handshake.proceed()
    theirs.send(pieces[-1])
    with pytest.raises(OSError, match=r"^TLS: no end of the handshake in 163\d\d bytes$"):
        handshake.proceed()


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_in_place_of_a_handshake_end_in_a_readable_error_or_wait(contexts: Contexts, noise: bytes) -> None:
    ours, theirs = pair()
    theirs.send(b"\x16" + noise)
    fault = None
    try:
        assert not TlsHandshake(ours, contexts[0]).proceed()
    except OSError as error:
        fault = error
    assert fault is None or (type(fault) is OSError and str(fault).startswith("TLS: "))
    ours.close()
    theirs.close()
