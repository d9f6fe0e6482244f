"""TLS under RTMP: any cut, slow readers, and peers that speak something else."""

import random
import re
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.relay.segment import MemoryBuffer
from penstock.serve.connections.certificates import load_tls
from tests.support.cuts import by_size, random_cuts, whole
from tests.support.tls import RECEIVE_BYTES, Contexts, Ends, Files, connect, connect_and_shake_hands, trusting

PIECE_BYTES = 64 * 1024
CUTS: dict[str, Callable[[bytes], list[bytes]]] = {
    "whole": whole,
    "byte by byte": lambda data: by_size(data, 1),
    "by 7": lambda data: by_size(data, 7),
    "by 128": lambda data: by_size(data, 128),
    "random": lambda data: random_cuts(data, 1),
}
PLAYED = random.Random(1).randbytes(300_000)
"""Several pieces, no part of which is like another."""
# A ClientHello of TLS 1.0 with one cipher suite and no extension.
OLD_HELLO = bytes.fromhex("16 0301 002d 01 000029 0301") + bytes(32) + bytes.fromhex("00 0002 c014 01 00")


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    """The server's and the client's, for all tests that do not care about certificates."""
    files = Files.made_in(tmp_path_factory.mktemp("tls"))
    return load_tls(files.cert, files.key), trusting(files.authority)


@pytest.fixture
def ends(contexts: Contexts) -> Iterator[Ends]:
    made = connect(contexts)
    yield made
    made.close()


@pytest.fixture
def opened(contexts: Contexts) -> Iterator[Ends]:
    made = connect_and_shake_hands(contexts)
    yield made
    made.close()


@pytest.fixture
def slow(contexts: Contexts) -> Iterator[Ends]:
    """Ends with a socket that takes a few kilobytes until the client reads."""
    made = connect_and_shake_hands(contexts, buffer_bytes=4096)
    yield made
    made.close()


# The handshake.


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("cut", CUTS)
def test_the_handshake_is_the_same_however_it_is_cut(tmp_path: Path, version: ssl.TLSVersion, cut: str) -> None:
    files = Files.made_in(tmp_path)
    theirs = trusting(files.authority)
    theirs.minimum_version = theirs.maximum_version = version
    ends = connect((load_tls(files.cert, files.key), theirs))
    ends.client.shake_hands(ends.transport, CUTS[cut])
    ends.client.tls.write(b"first words")
    assert b"".join(ends.client.pass_on(ends.transport, CUTS[cut])) == b"first words"
    assert ends.transport.send(b"answer") == 6
    ends.client.take()
    assert ends.client.heard() == b"answer"
    ends.close()


def test_nothing_can_be_sent_before_the_handshake_is_done(ends: Ends) -> None:
    assert ends.transport.send(b"early") == 0
    assert ends.transport.flush()


def test_a_handshake_that_cannot_be_sent_is_owed(contexts: Contexts) -> None:
    ends = connect(contexts, buffer_bytes=1)
    with suppress(BlockingIOError):
        while True:
            ends.transport._socket.send(bytes(512))
    with pytest.raises(ssl.SSLWantReadError):
        ends.client.tls.do_handshake()
    ends.client.pass_on(ends.transport)
    assert not ends.transport.flush()
    while not ends.transport.flush():
        ends.client.raw.recv(512)
    ends.close()


def test_old_versions_are_refused_and_told_so(ends: Ends) -> None:
    ends.client.raw.send(OLD_HELLO)
    with pytest.raises(OSError, match=r"^TLS: unsupported protocol$"):
        ends.transport.receive(RECEIVE_BYTES)
    assert ends.client.raw.recv(100) == bytes.fromhex("15 0301 0002 02 46")


@pytest.mark.parametrize(
    ("greeting", "words"),
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
def test_a_peer_without_tls_is_told_apart(ends: Ends, greeting: bytes, words: str) -> None:
    ends.client.raw.send(greeting)
    with pytest.raises(OSError, match=f"^{re.escape(f'TLS: {words}')}$"):
        ends.transport.receive(RECEIVE_BYTES)


def test_a_client_that_does_not_trust_us_says_so(contexts: Contexts) -> None:
    ends = connect((contexts[0], ssl.create_default_context()))
    with pytest.raises(ssl.SSLCertVerificationError):
        ends.client.shake_hands(ends.transport)
    with pytest.raises(OSError, match=r"^TLS: the peer says: unknown ca$"):
        ends.client.pass_on(ends.transport)
    ends.close()


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_in_place_of_a_handshake_end_in_a_readable_error_or_wait(contexts: Contexts, noise: bytes) -> None:
    ends = connect(contexts)
    ends.client.raw.send(b"\x16" + noise)
    fault = None
    try:
        assert ends.transport.receive(RECEIVE_BYTES) is None
    except OSError as error:
        fault = error
    assert fault is None or (type(fault) is OSError and str(fault).startswith("TLS: "))
    ends.close()


# Reading.


@pytest.mark.parametrize("cut", CUTS)
def test_records_are_the_same_however_tcp_cuts_them(opened: Ends, cut: str) -> None:
    opened.client.tls.write(PLAYED[:40_000])
    assert b"".join(opened.client.pass_on(opened.transport, CUTS[cut])) == PLAYED[:40_000]


def test_all_records_that_came_are_given_at_once(opened: Ends) -> None:
    for start in range(0, 50_000, 1000):
        opened.client.tls.write(PLAYED[start : start + 1000])
    assert opened.client.pass_on(opened.transport) == [PLAYED[:50_000]]
    assert opened.transport.receive(RECEIVE_BYTES) is None


def test_less_than_was_asked_for_means_that_the_socket_has_no_more(opened: Ends) -> None:
    opened.client.tls.write(PLAYED)
    sealed = memoryview(opened.client.outgoing.read())
    heard = b""
    while sealed:
        sealed = sealed[opened.client.raw.send(sealed) :]
        while data := opened.transport.receive(32_768):
            heard += data
            if len(data) < 32_768:
                break
        assert opened.transport.receive(32_768) is None
    assert heard == PLAYED


def test_half_a_record_is_waited_for(opened: Ends) -> None:
    opened.client.tls.write(b"whole")
    sealed = opened.client.outgoing.read()
    opened.client.raw.send(sealed[:-1])
    assert opened.transport.receive(RECEIVE_BYTES) is None
    opened.client.raw.send(sealed[-1:])
    assert opened.transport.receive(RECEIVE_BYTES) == b"whole"


def test_what_came_before_the_end_is_given_first(opened: Ends) -> None:
    opened.client.tls.write(b"last words")
    with pytest.raises(ssl.SSLWantReadError):
        opened.client.tls.unwrap()
    assert opened.client.pass_on(opened.transport) == [b"last words"]
    assert opened.transport.receive(RECEIVE_BYTES) == b""


def test_an_end_in_words_is_an_end(opened: Ends) -> None:
    with pytest.raises(ssl.SSLWantReadError):
        opened.client.tls.unwrap()
    assert opened.client.pass_on(opened.transport) == [b""]


def test_one_who_just_hangs_up_is_gone(opened: Ends) -> None:
    opened.client.take()
    opened.client.raw.close()
    assert opened.transport.receive(RECEIVE_BYTES) == b""


def test_one_who_hangs_up_in_the_handshake_is_gone(ends: Ends) -> None:
    ends.client.raw.send(OLD_HELLO[:20])
    assert ends.transport.receive(RECEIVE_BYTES) is None
    ends.client.raw.close()
    assert ends.transport.receive(RECEIVE_BYTES) == b""


def test_a_record_that_was_tampered_with_is_refused(opened: Ends) -> None:
    opened.client.tls.write(b"words")
    sealed = bytearray(opened.client.outgoing.read())
    sealed[-1] ^= 1
    opened.client.raw.send(sealed)
    with pytest.raises(OSError, match=r"^TLS: decryption failed or bad record mac$"):
        opened.transport.receive(RECEIVE_BYTES)
    with pytest.raises(OSError, match=r"^TLS: "):
        opened.transport.send(b"more")


def test_a_connection_that_was_reset_is_an_error_of_the_system(opened: Ends) -> None:
    opened.client.raw.close()
    with pytest.raises(BrokenPipeError):
        opened.transport.send(b"words")


# Writing.


@pytest.mark.parametrize("size", [1, 16_384, PIECE_BYTES, PIECE_BYTES + 1, 150_000])
def test_a_peer_that_reads_gets_all_at_once(opened: Ends, size: int) -> None:
    assert opened.transport.send(PLAYED[:size]) == size
    assert opened.transport.flush()
    opened.client.take()
    assert opened.client.heard() == PLAYED[:size]


def test_nothing_to_send_is_no_record(opened: Ends) -> None:
    opened.client.take()
    assert opened.transport.send(b"") == 0
    assert opened.client.take() == 0


def test_what_was_taken_is_owed_until_the_socket_takes_it(slow: Ends) -> None:
    assert slow.transport.send(PLAYED) == PIECE_BYTES
    assert not slow.transport.flush()
    assert len(slow.transport._owed) < PIECE_BYTES + 1024
    assert slow.transport.send(PLAYED[PIECE_BYTES:]) == 0
    while not slow.transport.flush():
        assert slow.client.take() > 0
    while slow.client.take():
        pass
    assert slow.client.heard() == PLAYED[:PIECE_BYTES]


def test_the_log_is_taken_by_copies_of_one_piece(slow: Ends) -> None:
    log = Log()
    log.append([PLAYED])
    taken = slow.transport.send_from(log, 256, len(PLAYED) - 256)
    assert taken == PIECE_BYTES
    assert log.copied == [PIECE_BYTES]
    assert slow.transport.send_from(log, 256 + taken, len(PLAYED) - 256 - taken) == 0
    heard = b""
    while taken < len(PLAYED) - 256 or not slow.transport.flush():
        slow.client.take()
        heard += slow.client.heard()
        taken += slow.transport.send_from(log, 256 + taken, len(PLAYED) - 256 - taken)
    while slow.client.take():
        heard += slow.client.heard()
    assert heard == PLAYED[256:]
    assert max(log.copied) <= PIECE_BYTES


def test_all_of_the_log_is_taken_by_a_peer_that_reads(opened: Ends) -> None:
    log = Log()
    log.append([PLAYED[:100_000]])
    assert opened.transport.send_from(log, 0, 100_000) == 100_000
    assert log.copied == [PIECE_BYTES, 100_000 - PIECE_BYTES]
    opened.client.take()
    assert opened.client.heard() == PLAYED[:100_000]


class Log(MemoryBuffer):
    """A piece of a log that remembers what was read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[int] = []

    def read(self, offset: int, size: int) -> bytes:
        self.copied.append(size)
        return super().read(offset, size)


@given(st.lists(st.tuples(st.integers(1, 200_000), st.integers(0, 100_000)), min_size=1, max_size=12))
def test_a_slow_reader_gets_every_byte_in_order(contexts: Contexts, turns: Sequence[tuple[int, int]]) -> None:
    """Each turn offers some bytes, and gives what was not taken again; then the client reads some."""
    ends = connect_and_shake_hands(contexts, buffer_bytes=4096)
    sent, heard = 0, b""
    for offered, read in turns:
        sent += ends.transport.send(PLAYED[sent : sent + offered])
        ends.client.take(read + 1)
        heard += ends.client.heard()
    while not ends.transport.flush():
        ends.client.take()
    while ends.client.take():
        pass
    assert heard + ends.client.heard() == PLAYED[:sent]
    ends.close()


def test_a_peer_that_makes_tls_answer_and_reads_nothing_is_given_up(
    contexts: Contexts,
) -> None:
    outgoing = ssl.MemoryBIO()
    ends = connect_and_shake_hands(contexts, outgoing)
    outgoing.write(bytes(5 * PIECE_BYTES))
    ends.client.tls.write(b"words")
    with pytest.raises(OSError, match=r"^TLS: the peer has left \d+ bytes unread$"):
        ends.client.pass_on(ends.transport)
    ends.close()


# Several connections that share the place that TLS seals into.


def test_connections_that_share_do_not_hear_each_other(contexts: Contexts) -> None:
    outgoing = ssl.MemoryBIO()
    several = [connect_and_shake_hands(contexts, outgoing, buffer_bytes=4096) for _ in range(3)]
    for start in range(0, 3000, 1000):
        for number, ends in enumerate(several):
            assert ends.transport.send(PLAYED[start + number : start + number + 1000]) == 1000
    for number, ends in enumerate(several):
        while ends.client.take() or not ends.transport.flush():
            pass
        wanted = b"".join(PLAYED[start + number : start + number + 1000] for start in range(0, 3000, 1000))
        assert ends.client.heard() == wanted
        ends.close()
    assert outgoing.pending == 0


@pytest.mark.parametrize("fault", ["old version", "tampered", "unread", "gone", "bug"])
def test_a_connection_that_fails_leaves_nothing_to_the_next(contexts: Contexts, fault: str) -> None:
    outgoing = ssl.MemoryBIO()
    good = connect_and_shake_hands(contexts, outgoing)
    bad = connect(contexts, outgoing, buffer_bytes=4096)
    if fault == "old version":
        bad.client.raw.send(OLD_HELLO)
        with pytest.raises(OSError, match="TLS"):
            bad.transport.receive(RECEIVE_BYTES)
    elif fault == "bug":
        outgoing.write(b"sealed for another")
    else:
        bad.client.shake_hands(bad.transport)
        bad.client.pass_on(bad.transport)
    if fault == "tampered":
        bad.client.raw.send(bytes.fromhex("17 0303 0020") + bytes(32))
        with pytest.raises(OSError, match="TLS"):
            bad.transport.receive(RECEIVE_BYTES)
    elif fault == "unread":
        bad.transport.send(PLAYED)
    elif fault == "gone":
        bad.client.raw.close()
        with pytest.raises(BrokenPipeError):
            bad.transport.send(PLAYED)
    bad.close()
    assert outgoing.pending == 0
    assert good.transport.send(b"words") == 5
    good.client.take()
    assert good.client.heard() == b"words"
    good.close()


# The end.


def test_closing_says_that_it_is_the_end(opened: Ends) -> None:
    opened.transport.send(b"last words")
    opened.transport.close()
    opened.client.take()
    assert opened.client.tls.read(100) == b"last words"
    assert opened.client.tls.read(100) == b"", "an end in words, where one who hangs up leaves the client to wait"


@pytest.mark.parametrize("state", ["fresh", "in the handshake", "owing"])
def test_closing_never_waits(ends: Ends, slow: Ends, state: str) -> None:
    if state == "in the handshake":
        ends.client.raw.send(OLD_HELLO[:20])
        ends.transport.receive(RECEIVE_BYTES)
    elif state == "owing":
        ends = slow
        ends.transport.send(PLAYED)
    ends.transport.close()
    with pytest.raises(OSError, match="descriptor"):
        ends.transport.receive(RECEIVE_BYTES)
