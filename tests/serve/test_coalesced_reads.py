"""Sockets that are looked at together: when, and how many of them at a time."""

import math
import socket
from collections.abc import Iterator
from itertools import chain

import pytest

from penstock.serve.coalesced_reads import CoalescedReads, Pace, coalesced_reads
from penstock.serve.reactor import READ
from tests.serve.streams.socket_pairs import Pair, near_ends, socket_pairs


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    with socket_pairs(8) as made:
        yield made


@pytest.fixture
def reads(pairs: list[Pair]) -> Iterator[CoalescedReads]:
    """All eight sockets, of which a quarter is looked at every 10 ms."""
    made = CoalescedReads(0.010, parts=4, least=1)
    for descriptor in near_ends(pairs):
        made.add(descriptor, READ)
    yield made
    made.close()


def say(pairs: list[Pair]) -> None:
    for _, theirs in pairs:
        theirs.send(b"x")


def descriptors(events: list[tuple[int, int]]) -> list[int]:
    return [descriptor for descriptor, _ in events]


def test_they_are_looked_at_once_per_interval(reads: CoalescedReads, pairs: list[Pair]) -> None:
    say(pairs[:1])
    assert reads.poll(5.0) == [(pairs[0][0].fileno(), READ)]
    assert reads.poll(5.009) == []
    assert reads.wake_at == 5.010
    assert reads.poll(5.010) == [(pairs[0][0].fileno(), READ)]


def test_a_part_each_time_is_everybodys_turn_after_so_many_times(reads: CoalescedReads, pairs: list[Pair]) -> None:
    say(pairs)
    looks = [descriptors(reads.poll(5.0 + number)) for number in range(8)]
    assert [len(look) for look in looks] == [2] * 8
    for start in range(5):
        # Nobody reads them, so that all stay ready.
        assert sorted(chain.from_iterable(looks[start : start + 4])) == sorted(near_ends(pairs))


def test_those_that_have_nothing_do_not_take_the_turn_of_others(reads: CoalescedReads, pairs: list[Pair]) -> None:
    say(pairs)
    reads.poll(5.0)
    for ours, _ in pairs[:6]:
        ours.recv(10)
    assert sorted(descriptors(reads.poll(6.0))) == sorted(near_ends(pairs[6:]))


def test_one_that_was_removed_is_not_looked_at_and_with_nobody_left_there_is_nothing_to_wake_up_for(
    reads: CoalescedReads, pairs: list[Pair]
) -> None:
    say(pairs)
    for descriptor in near_ends(pairs):
        reads.remove(descriptor)
    assert reads.wake_at == math.inf
    assert reads.poll(5.0) == []


def test_the_slack_lets_others_wake_the_loop_first(pairs: list[Pair]) -> None:
    reads = CoalescedReads(0.100, slack_s=0.050)
    reads.add(pairs[0][0].fileno(), READ)
    reads.poll(5.0)
    assert reads.wake_at == pytest.approx(5.150)
    assert reads.poll(5.099) == []
    say(pairs[:1])
    assert len(reads.poll(5.101)) == 1
    reads.close()


@pytest.mark.parametrize(("publishers", "ticks"), [(12, 1), (32, 3), (50, 4), (200, 4)])
def test_what_comes_at_a_tick_waits_for_four_of_them_at_most(publishers: int, ticks: int) -> None:
    every = coalesced_reads()
    reads = every[Pace.TICK]
    with socket_pairs(publishers) as pairs:
        for descriptor in near_ends(pairs):
            reads.add(descriptor, READ)
        say(pairs)
        waited, left = 0, set(near_ends(pairs))
        while left:
            left -= set(descriptors(reads.poll(5.0 + 0.010 * waited)))
            waited += 1
        assert waited == ticks
    for each in every.values():
        each.close()


def test_a_hang_up_is_told_of_too(reads: CoalescedReads, pairs: list[Pair]) -> None:
    pairs[3][1].shutdown(socket.SHUT_RDWR)
    assert descriptors(reads.poll(5.0)) == [pairs[3][0].fileno()]
