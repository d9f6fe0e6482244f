"""TLS under RTMP once hands are shaken: any cut, slow readers, and what comes right behind the handshake."""

import random
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.certificates import load_tls
from penstock.relay.segment import MemoryBuffer
from tests.support.cuts import by_size, random_cuts, whole
from tests.support.tls import RECEIVE_BYTES, Contexts, Ends, Files, connect, meet, trusting

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


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    """The server's and the client's, for all tests that do not care about certificates."""
    files = Files.made_in(tmp_path_factory.mktemp("tls"))
    return load_tls(files.cert, files.key), trusting(files.authority)


@pytest.fixture
def opened(contexts: Contexts) -> Iterator[Ends]:
    made = connect(contexts)
    yield made
    made.close()


@pytest.fixture
def slow(contexts: Contexts) -> Iterator[Ends]:
    """Ends with a socket that takes a few kilobytes until the client reads."""
    made = connect(contexts, buffer_bytes=4096)
    yield made
    made.close()


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


# Right behind the handshake.


@pytest.mark.parametrize("size", [1, 1000, 20_000])
def test_what_came_with_the_end_of_the_handshake_is_there_at_the_first_receive(contexts: Contexts, size: int) -> None:
    handshake, client = meet(contexts)
    client.shake_hands(handshake)
    client.tls.write(PLAYED[:size])
    assert client.lead(handshake)
    ends = Ends(handshake.transport(), client)
    assert ends.transport.receive(RECEIVE_BYTES) == PLAYED[:size]
    assert ends.transport.receive(RECEIVE_BYTES) is None
    ends.close()


def test_half_a_record_right_behind_the_handshake_is_waited_for(contexts: Contexts) -> None:
    handshake, client = meet(contexts)
    client.shake_hands(handshake)
    client.tls.write(b"whole")
    sealed = client.outgoing.read()
    client.raw.send(sealed[:-3])
    assert handshake.proceed()
    ends = Ends(handshake.transport(), client)
    assert ends.transport.receive(RECEIVE_BYTES) is None
    client.raw.send(sealed[-3:])
    assert ends.transport.receive(RECEIVE_BYTES) == b"whole"
    ends.close()


def test_an_end_right_behind_the_handshake_is_an_end(contexts: Contexts) -> None:
    handshake, client = meet(contexts)
    client.shake_hands(handshake)
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    assert client.lead(handshake)
    ends = Ends(handshake.transport(), client)
    assert ends.transport.receive(RECEIVE_BYTES) == b""
    ends.close()


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
    ends = connect(contexts, buffer_bytes=4096)
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


def test_one_record_at_a_time_is_in_the_memory_that_tls_seals_into(contexts: Contexts) -> None:
    """As that memory never shrinks, and each viewer has its own."""
    written: list[int] = []

    class Watched(ssl.SSLObject):
        def write(self, data: Any) -> int:
            assert ends.transport._outgoing.pending == 0
            written.append(len(data))
            return super().write(data)

    contexts[0].sslobject_class = Watched
    ends = connect(contexts)
    contexts[0].sslobject_class = ssl.SSLObject
    assert ends.transport.send(PLAYED[:40_000]) == 40_000
    assert written == [16_384, 16_384, 7_232]
    ends.client.take()
    assert ends.client.heard() == PLAYED[:40_000]
    ends.close()


def test_a_peer_that_makes_tls_answer_and_reads_nothing_is_given_up(
    contexts: Contexts,
) -> None:
    ends = connect(contexts)
    ends.transport._outgoing.write(bytes(5 * PIECE_BYTES))
    ends.client.tls.write(b"words")
    with pytest.raises(OSError, match=r"^TLS: the peer has left \d+ bytes unread$"):
        ends.client.pass_on(ends.transport)
    ends.close()


# The end.


def test_closing_says_that_it_is_the_end(opened: Ends) -> None:
    opened.transport.send(b"last words")
    opened.transport.close()
    opened.client.take()
    assert opened.client.tls.read(100) == b"last words"
    assert opened.client.tls.read(100) == b"", "an end in words, where one who hangs up leaves the client to wait"


def test_closing_never_waits(slow: Ends) -> None:
    slow.transport.send(PLAYED)
    slow.transport.close()
    with pytest.raises(OSError, match="descriptor"):
        slow.transport.receive(RECEIVE_BYTES)
