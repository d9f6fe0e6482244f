"""What streams flush to the sockets of their viewers: by one call for all of them, or by one call each."""

import os
from collections.abc import Iterator, Sequence

import pytest

from penstock.media.frame import FrameKind
from penstock.relay.readable_log import Flush
from penstock.relay.segment import Entry, MemoryBuffer, Segment
from penstock.serve.sending.fan_out import FanOut, Sending, send_to_each
from penstock.serve.sending.memfd import MemfdBuffer
from penstock.serve.sending.send_ring import SendRing
from tests.serve.streams.socket_pairs import Pair, fill, near_ends, socket_pairs

FULL, LOST = 1, 3
"""Of the five pairs, one that is not read and one whose other end is closed."""


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    with socket_pairs(5) as made:
        yield made


def test_each_socket_is_sent_the_same_and_the_answer_tells_who_took_how_much(pairs: list[Pair]) -> None:
    fill(pairs[FULL])
    pairs[LOST][1].close()
    assert send_to_each(os.write, near_ends(pairs), b"hello") == [5, 0, 5, -1, 5]
    for index in (0, 2, 4):
        assert pairs[index][1].recv(100) == b"hello"


@pytest.mark.parametrize("lost", [0, 4])
def test_the_first_and_the_last_may_be_the_ones_that_are_lost(pairs: list[Pair], lost: int) -> None:
    pairs[lost][1].close()
    expected = [-1 if index == lost else 2 for index in range(5)]
    assert send_to_each(os.write, near_ends(pairs), b"ab") == expected


def test_a_file_is_sent_from_an_offset(pairs: list[Pair]) -> None:
    file = os.memfd_create("log")
    try:
        os.write(file, b"0123456789")
        fill(pairs[FULL])
        assert send_to_each(os.sendfile, near_ends(pairs), file, 3, 4) == [4, 0, 4, 4, 4]
        assert pairs[4][1].recv(100) == b"3456"
    finally:
        os.close(file)


def test_nobody_to_send_to_is_no_error() -> None:
    assert send_to_each(os.write, [], b"hello") == []


# A round of streams.

LARGE = 30_000
"""More than the ring is given."""


class FakeRing(SendRing):
    """Takes everything but what is sent to the sockets that it is told of."""

    def __init__(self, taken: dict[int, int] | None = None) -> None:
        self.calls: list[list[tuple[list[int], bytes]]] = []
        self._taken = taken or {}

    def send(self, batches: Sequence[tuple[Sequence[int], bytes]]) -> list[list[int]]:
        self.calls.append([(list(sockets), data) for sockets, data in batches])
        return [[self._taken.get(number, len(data)) for number in sockets] for sockets, data in batches]


@pytest.fixture
def segment() -> Iterator[Segment]:
    made = Segment(MemfdBuffer(), 0, 0.0)
    yield made
    made.buffer.close()


def sending(segment: Segment, data: bytes, sockets: Sequence[int]) -> Sending:
    position = segment.end
    entry = Entry(position, len(data), FrameKind.VIDEO, 0, len(data), is_key=False, is_setup=False)
    segment.append([data], [entry], len(data))
    return Sending(Flush(segment, position, len(data), [entry], [data]), list(sockets))


def test_small_flushes_of_all_streams_go_by_one_call_and_large_ones_from_the_log(
    segment: Segment, pairs: list[Pair]
) -> None:
    ring = FakeRing()
    large = os.urandom(LARGE)
    sendings = [
        sending(segment, b"one", range(1000, 1010)),
        sending(segment, large, near_ends(pairs)[:1]),
        sending(segment, b"three", range(2000, 2010)),
    ]
    assert FanOut(ring).send(sendings) == [[3] * 10, [LARGE], [5] * 10]
    assert ring.calls == [[(list(range(1000, 1010)), b"one"), (list(range(2000, 2010)), b"three")]]
    assert pairs[0][1].recv(LARGE + 1) == large


def test_who_took_less_is_told_to_its_own_stream(segment: Segment) -> None:
    ring = FakeRing({1003: 2, 2000: -1})
    sendings = [sending(segment, b"one", range(1000, 1010)), sending(segment, b"two", range(2000, 2010))]
    one, two = FanOut(ring).send(sendings)
    assert one == [3, 3, 3, 2, 3, 3, 3, 3, 3, 3]
    assert two == [-1, 3, 3, 3, 3, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("ring", [None, FakeRing()])
def test_without_a_ring_or_for_a_few_one_call_is_made_for_each(
    segment: Segment, pairs: list[Pair], ring: FakeRing | None
) -> None:
    numbers = near_ends(pairs)
    sendings = [sending(segment, b"tiny", numbers[:2]), sending(segment, bytes(5000), numbers[2:])]
    assert FanOut(ring).send(sendings) == [[4, 4], [5000] * 3]
    assert pairs[1][1].recv(100) == b"tiny"
    assert pairs[2][1].recv(9999) == bytes(5000)
    assert ring is None or ring.calls == []


def test_what_is_in_plain_memory_alone_is_sent_from_there_and_more_can_be_written_behind_it(pairs: list[Pair]) -> None:
    segment = Segment(MemoryBuffer(), 100, 0.0)
    segment.append([b"other", bytes(range(256)) * 200], [], 5 + 51_200)
    fill(pairs[FULL])
    pairs[LOST][1].close()
    kept = Sending(Flush(segment, 105, 51_200, []), near_ends(pairs))
    assert FanOut(None).send([kept]) == [[51_200, 0, 51_200, -1, 51_200]]
    assert pairs[0][1].recv(60_000) == bytes(range(256)) * 200
    segment.append([b"more"], [], 4)


def test_a_stream_without_viewers_in_step_is_sent_to_nobody(segment: Segment) -> None:
    ring = FakeRing()
    sendings = [sending(segment, b"nobody", []), sending(segment, b"all", range(1000, 1016))]
    assert FanOut(ring).send(sendings) == [[], [3] * 16]
    assert ring.calls == [[(list(range(1000, 1016)), b"all")]]
