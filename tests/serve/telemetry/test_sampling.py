"""Samples in slices: nobody is forgotten, and the loop is never held for long."""

import itertools
import socket
from collections.abc import Callable
from typing import cast

import pytest

from penstock.serve.reactor import Reactor, Timer
from penstock.serve.telemetry.sampling import SLICE_ITEMS, SLICE_PAUSE_S, SampleRing, read_tcp_figures


class HandTurned:
    """A reactor whose time is told by the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def call_at(self, due: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(due, callback))
        return self.timers[-1]

    def turn_until(self, until: float) -> None:
        while self.timers and min(timer.due for timer in self.timers) <= until:
            timer = min(self.timers, key=lambda timer: timer.due)
            self.timers.remove(timer)
            self.now = max(self.now, timer.due)
            assert timer.callback is not None
            timer.callback()
        self.now = until

    @property
    def reactor(self) -> Reactor:
        return cast("Reactor", self)


def test_each_is_sampled_once_per_interval_and_first_after_one() -> None:
    hand = HandTurned()
    taken: list[tuple[str, float]] = []
    ring: SampleRing[str] = SampleRing(hand.reactor, lambda item, now: taken.append((item, round(now, 2))), 5.0)
    ring.add("a", 100.0)
    ring.add("b", 101.0)
    ring.keep_going()
    hand.turn_until(104.9)
    assert taken == []
    hand.turn_until(112.0)
    assert taken == [("a", 105.0), ("b", 106.0), ("a", 110.0), ("b", 111.0)]


def test_a_crowd_that_came_at_once_is_taken_in_slices() -> None:
    hand = HandTurned()
    taken: list[tuple[int, float]] = []
    ring: SampleRing[int] = SampleRing(hand.reactor, lambda item, now: taken.append((item, now)), 5.0)
    for number in range(1000):
        ring.add(number, 100.0)
    ring.keep_going()
    hand.turn_until(109.9)
    assert [item for item, _ in taken] == list(range(1000))
    times = sorted({at for _, at in taken})
    assert {sum(1 for _, at in taken if at == time) for time in times} == {SLICE_ITEMS}
    assert all(later - time >= SLICE_PAUSE_S - 1e-9 for time, later in itertools.pairwise(times))
    hand.turn_until(114.9)
    assert len(taken) == 2000


def test_more_than_can_be_got_round_to_are_sampled_less_often_but_all() -> None:
    hand = HandTurned()
    taken: list[int] = []
    ring: SampleRing[int] = SampleRing(hand.reactor, lambda item, _now: taken.append(item), 0.1)
    for number in range(5 * SLICE_ITEMS * 10):
        ring.add(number, 100.0)
    ring.keep_going()
    hand.turn_until(100.1 + 51 * SLICE_PAUSE_S)
    assert set(taken) == set(range(5000))
    assert len(taken) <= 52 * SLICE_ITEMS


def test_one_that_is_gone_is_not_sampled_and_an_empty_ring_stops() -> None:
    hand = HandTurned()
    taken: list[str] = []
    ring: SampleRing[str] = SampleRing(hand.reactor, lambda item, _now: taken.append(item), 1.0)
    ring.add("a", 100.0)
    ring.keep_going()
    ring.discard("a")
    ring.discard("a")
    hand.turn_until(110.0)
    assert (taken, hand.timers) == ([], [])
    ring.add("b", 110.0)
    ring.keep_going()
    ring.keep_going()
    assert len(hand.timers) == 1
    hand.turn_until(111.0)
    assert taken == ["b"]


def test_one_that_cannot_be_sampled_does_not_stop_the_others() -> None:
    hand = HandTurned()
    taken: list[str] = []

    def sample(item: str, now: float) -> None:
        if item == "bad":
            raise RuntimeError
        taken.append(item)

    ring: SampleRing[str] = SampleRing(hand.reactor, sample, 1.0)
    ring.add("bad", 100.0)
    ring.add("good", 100.0)
    ring.keep_going()
    with pytest.raises(RuntimeError):
        hand.turn_until(101.0)
    hand.turn_until(101.5)
    assert taken == ["good"]


def test_tcp_tells_what_the_peer_acknowledged_and_keeps_its_descriptor() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as peer:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(bytes(5000))
            assert len(peer.recv(5000, socket.MSG_WAITALL)) == 5000
            figures = read_tcp_figures(connection.fileno())
            assert figures is not None
            assert 0 < figures.acknowledged_bytes <= 5001
            assert (figures.rtt_us > 0, figures.retransmits) == (True, 0)
            connection.sendall(b"still open")


def test_a_descriptor_that_is_no_tcp_socket_tells_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert read_tcp_figures(ours.fileno()) is None
    assert read_tcp_figures(2**30) is None
