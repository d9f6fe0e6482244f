"""Bytes to many sockets by one call of the kernel, some of which are full or gone."""

import json
import os
import socket
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.serve.sending.send_ring import SendRing, by_name, open_send_ring
from tests.serve.streams.socket_pairs import Pair, fill, near_ends, socket_pairs
from tests.support.penstock_server import penstock_server

FULL, LOST, COUNT = 1, 3, 5
"""Of the five pairs, one that is not read and one whose other end is closed."""
SMALL_RING = 4


def _ring(entries: int) -> SendRing:
    try:
        SendRing(entries).close()
    except OSError as error:
        pytest.skip(f"this kernel or container does not allow io_uring: {error}")
    ring = open_send_ring(entries)
    assert ring is not None
    return ring


@pytest.fixture
def ring() -> Iterator[SendRing]:
    made = _ring(SMALL_RING)
    yield made
    made.close()


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    """More than the ring takes at once."""
    with socket_pairs(COUNT) as made:
        yield made


def test_each_socket_is_sent_the_same_and_the_answer_tells_who_took_how_much(ring: SendRing, pairs: list[Pair]) -> None:
    fill(pairs[FULL])
    pairs[LOST][1].close()
    assert ring.send([(near_ends(pairs), b"hello")]) == [[5, 0, 5, -1, 5]]
    for index in (0, 2, 4):
        assert pairs[index][1].recv(100) == b"hello"


def test_a_number_that_is_no_socket_is_lost_and_the_others_are_sent_to(ring: SendRing, pairs: list[Pair]) -> None:
    sockets = near_ends(pairs)
    pairs[2][0].close()
    assert ring.send([(sockets, b"hello")]) == [[5, 5, -1, 5, 5]]


def test_what_a_socket_has_no_room_for_is_left_to_the_caller(ring: SendRing) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_connection(listener.getsockname())
    ours, _ = listener.accept()
    with listener, theirs, ours:
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        data = os.urandom(16 * 1024 * 1024)
        ((taken,),) = ring.send([([ours.fileno()], data)])
        assert 0 < taken < len(data)
        ours.close()
        with theirs.makefile("rb") as received:
            assert received.read() == data[:taken]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=300)), max_size=30))
def test_every_socket_gets_every_byte_in_order_however_often_the_ring_turns(batches: list[tuple[int, bytes]]) -> None:
    ring = _ring(8)
    with socket_pairs(20) as pairs:
        expected = dict.fromkeys(near_ends(pairs), b"")
        turn = cycle(near_ends(pairs))
        for count, data in batches:
            chosen = list(dict.fromkeys(islice(turn, count)))
            assert ring.send([(chosen, data)]) == [[len(data)] * len(chosen)]
            for number in chosen:
                expected[number] += data
        for ours, theirs in pairs:
            wanted = expected[ours.fileno()]
            assert (theirs.recv(len(wanted) + 1) if wanted else b"") == wanted
    ring.close()


def test_to_some_sockets_one_thing_and_another_to_others_by_one_call(ring: SendRing, pairs: list[Pair]) -> None:
    one, two, three, *_ = near_ends(pairs)
    assert ring.send([([one, two], b"hello"), ([three], b"you")]) == [[5, 5], [3]]
    assert [theirs.recv(100) for _, theirs in pairs[:3]] == [b"hello", b"hello", b"you"]


def test_one_that_is_full_or_lost_in_the_middle_is_told_of_where_it_stands(ring: SendRing, pairs: list[Pair]) -> None:
    fill(pairs[FULL])
    pairs[LOST][1].close()
    zero, full, two, lost, four = near_ends(pairs)
    batches = [([zero], b"a"), ([full, two], b"bcd"), ([], b"nobody"), ([lost], b"ef"), ([four], b"ghij")]
    assert ring.send(batches) == [[1], [0, 3], [], [-1], [4]]
    assert [pairs[index][1].recv(100) for index in (0, 2, 4)] == [b"a", b"bcd", b"ghij"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.binary(max_size=300)), max_size=12))
def test_every_socket_gets_the_bytes_of_its_batch_however_batches_are_cut(shapes: list[tuple[int, bytes]]) -> None:
    ring = _ring(8)
    with socket_pairs(sum(count for count, _ in shapes)) as pairs:
        left = iter(near_ends(pairs))
        batches = [(list(islice(left, count)), data) for count, data in shapes]
        assert ring.send(batches) == [[len(data)] * len(sockets) for sockets, data in batches]
        expected = [data for sockets, data in batches for _ in sockets]
        for (_, theirs), wanted in zip(pairs, expected, strict=True):
            assert (theirs.recv(len(wanted) + 1) if wanted else b"") == wanted
    ring.close()


def test_nobody_to_send_to_is_no_error(ring: SendRing) -> None:
    assert ring.send([([], b"hello")]) == [[]]
    assert ring.send([]) == []


def test_answers_are_told_apart_by_their_names_whatever_their_order() -> None:
    assert by_name([2, 0, 1], [30, 10, 20]) == [10, 20, 30]
    assert by_name([0, 1], [10, 20]) == [10, 20]


def test_a_ring_that_the_system_refuses_is_none() -> None:
    assert open_send_ring(entries=0) is None


def test_a_ring_gives_its_descriptor_back() -> None:
    before = os.listdir("/proc/self/fd")
    _ring(SMALL_RING).close()
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("setting", [True, False])
def test_the_line_of_the_start_tells_whether_there_is_a_ring(tmp_path: Path, setting: bool) -> None:
    _ring(SMALL_RING).close()
    with penstock_server(tmp_path, config=f"[server]\nio_uring = {str(setting).lower()}\n"):
        (line,) = [line for line in (tmp_path / "server.log").read_text().splitlines() if '"worker started"' in line]
        assert json.loads(line)["io_uring"] is setting
