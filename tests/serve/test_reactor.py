"""The loop: sockets, timers, signals and other threads, and callbacks that fail."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.serve.coalesced_reads import Pace
from penstock.serve.reactor import READ, WRITE, Reactor, Turn

pytestmark = pytest.mark.alone  # timers are compared with the clock

DEADLINE_S = 5.0


class Stage:
    """A reactor that stops by itself if a test forgets to, and the errors it met."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.reactor = Reactor(self.errors.append)
        self.happened: list[str] = []

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.happened.append(what)

    def run(self) -> None:
        timed_out: list[bool] = []

        def give_up() -> None:
            timed_out.append(True)
            self.reactor.stop()

        self.reactor.call_at(time.monotonic() + DEADLINE_S, give_up)
        self.reactor.run()
        assert not timed_out, f"never stopped; happened: {self.happened}"


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.reactor.close()


@contextmanager
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_a_readable_socket_is_told_of_and_a_removed_one_is_not(stage: Stage) -> None:
    with sockets() as (ours, theirs):
        seen: list[int] = []

        def on_ready(events: int) -> None:
            seen.append(events)
            stage.reactor.remove(ours.fileno())
            stage.reactor.call_later(0.02, stage.reactor.stop)

        stage.reactor.add(ours.fileno(), READ, on_ready)
        theirs.send(b"x")
        stage.run()
        assert seen == [READ]


def test_interest_can_be_changed(stage: Stage) -> None:
    with sockets() as (ours, theirs):
        seen: list[int] = []

        def on_ready(events: int) -> None:
            seen.append(events)
            if events == WRITE:
                stage.reactor.modify(ours.fileno(), READ)
                theirs.send(b"x")
            else:
                stage.reactor.stop()

        stage.reactor.add(ours.fileno(), WRITE, on_ready)
        stage.run()
        assert seen == [WRITE, READ]


def test_one_closed_by_another_in_the_same_round_is_not_called(stage: Stage) -> None:
    with sockets() as (one, one_peer), sockets() as (two, two_peer):
        called: list[str] = []

        def closes_the_other(name: str, other: socket.socket) -> Callable[[int], None]:
            def on_ready(_events: int) -> None:
                called.append(name)
                stage.reactor.forget(other.fileno())
                stage.reactor.forget(other.fileno())
                stage.reactor.stop()

            return on_ready

        stage.reactor.add(one.fileno(), READ, closes_the_other("one", two))
        stage.reactor.add(two.fileno(), READ, closes_the_other("two", one))
        one_peer.send(b"x")
        two_peer.send(b"x")
        stage.run()
        assert len(called) == 1
        assert stage.errors == []


def test_what_is_due_comes_in_order_of_time_and_then_of_asking(stage: Stage) -> None:
    start = stage.reactor.now
    for name, delay_s in (("late", 0.03), ("first", 0.01), ("second", 0.01), ("past", -1.0)):
        stage.reactor.call_at(start + delay_s, stage.note(name))
    stage.reactor.call_later(0.04, stage.reactor.stop)
    stage.run()
    assert stage.happened == ["past", "first", "second", "late"]


def test_a_timer_is_never_early_and_hardly_late(stage: Stage) -> None:
    stopped_at: list[float] = []
    due = time.monotonic() + 0.05

    def stop() -> None:
        stopped_at.append(time.monotonic())
        stage.reactor.stop()

    stage.reactor.call_at(due, stop)
    stage.run()
    assert 0 <= stopped_at[0] - due < 0.05


def test_a_cancelled_timer_does_not_come(stage: Stage) -> None:
    timer = stage.reactor.call_later(0.01, stage.note("cancelled"))
    timer.cancel()
    done = stage.reactor.call_later(0.02, stage.reactor.stop)
    stage.run()
    done.cancel()
    assert stage.happened == []


def test_after_each_round_the_rest_is_done_once(stage: Stage) -> None:
    rounds: list[int] = []
    stage.reactor.after_events = lambda: rounds.append(len(stage.happened))
    with sockets() as (one, one_peer), sockets() as (two, two_peer):
        for each in (one, two):
            stage.reactor.add(each.fileno(), READ, lambda _events, each=each: stage.happened.append(str(each.recv(9))))  # type: ignore[misc]
        one_peer.send(b"x")
        two_peer.send(b"x")
        stage.reactor.call_later(0.02, stage.reactor.stop)
        stage.run()
    assert rounds[0] == 2, "everything that was readable is read before anything is sent"


@pytest.mark.parametrize("place", ["socket", "timer", "after events", "thread"])
def test_a_callback_that_fails_costs_nothing_else(stage: Stage, place: str) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(place)

    with sockets() as (ours, theirs):
        if place == "socket":

            def read_and_fail(_events: int) -> None:
                ours.recv(1)
                fail()

            stage.reactor.add(ours.fileno(), READ, read_and_fail)
            theirs.send(b"x")
        elif place == "timer":
            stage.reactor.call_later(0.0, fail)
        elif place == "after events":
            stage.reactor.after_events = fail
        else:
            stage.reactor.call_from_thread(fail)
        stage.reactor.call_from_thread(stage.note("still here"))
        stage.reactor.call_later(0.03, stage.reactor.stop)
        stage.run()
    assert stage.happened == ["still here"]
    assert {str(error) for error in stage.errors} == {place}


def test_a_callback_that_fails_again_and_again_is_not_called_any_more(stage: Stage) -> None:
    with sockets() as (ours, theirs):

        def fail(_events: int) -> None:
            raise ValueError("never reads")

        stage.reactor.add(ours.fileno(), READ, fail)
        theirs.send(b"x")
        stage.reactor.call_later(0.2, stage.reactor.stop)
        stage.run()
        assert len(stage.errors) == 10


def test_another_thread_can_have_something_called_on_the_loop(stage: Stage) -> None:
    idents: list[int] = []

    def on_loop() -> None:
        idents.append(threading.get_ident())
        stage.reactor.stop()

    def call_later() -> None:
        time.sleep(0.02)
        stage.reactor.call_from_thread(on_loop)

    caller = threading.Thread(target=call_later)
    caller.start()
    stage.run()
    caller.join()
    assert idents == [threading.get_ident()]


def test_more_calls_from_threads_than_a_pipe_holds_all_come(stage: Stage) -> None:
    for _ in range(70_000):
        stage.reactor.call_from_thread(stage.note("x"))
    stage.reactor.call_from_thread(stage.reactor.stop)
    stage.run()
    assert len(stage.happened) == 70_000


def test_after_the_end_a_thread_may_call_without_harm() -> None:
    stage = Stage()
    stage.reactor.close()
    stage.reactor.call_from_thread(stage.note("too late"))
    assert stage.happened == []


def test_signals_wake_the_loop_and_a_failing_handler_does_not_stop_it(stage: Stage) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}

    def fail() -> None:
        raise RuntimeError("handler")

    try:
        stage.reactor.on_signal(signal.SIGUSR1, fail)
        stage.reactor.on_signal(signal.SIGUSR2, stage.reactor.stop)
        for delay_s, number in ((0.01, signal.SIGUSR1), (0.03, signal.SIGUSR2)):
            stage.reactor.call_later(delay_s, lambda number=number: os.kill(os.getpid(), number))  # type: ignore[misc]
        stage.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert [str(error) for error in stage.errors] == ["handler"]


def test_gathered_sockets_are_read_together_and_soon_enough(stage: Stage) -> None:
    with sockets() as (ours, theirs):
        reads: list[bytes] = []
        stage.reactor.add(ours.fileno(), READ, lambda _events: reads.append(ours.recv(100)))
        stage.reactor.set_pace(ours.fileno(), READ, Pace.LAZY)
        for number in range(20):
            stage.reactor.call_later(number * 0.01, lambda: theirs.sendall(b"x"))
        stage.reactor.call_later(0.45, stage.reactor.stop)
        stage.run()
        assert sum(map(len, reads)) == 20
        assert len(reads) <= 6


def test_a_socket_that_is_gathered_no_more_is_read_at_once(stage: Stage) -> None:
    with sockets() as (ours, theirs):
        reads: list[float] = []

        def on_ready(_events: int) -> None:
            ours.recv(100)
            reads.append(time.monotonic())

        stage.reactor.add(ours.fileno(), READ, on_ready)
        stage.reactor.set_pace(ours.fileno(), READ, Pace.LAZY)
        stage.reactor.modify(ours.fileno(), READ | WRITE)
        stage.reactor.set_pace(ours.fileno(), READ, Pace.AT_ONCE)
        sent: list[float] = []

        def send() -> None:
            sent.append(time.monotonic())
            theirs.sendall(b"x")

        for number in range(10):
            stage.reactor.call_later(0.01 + number * 0.02, send)
        stage.reactor.call_later(0.25, stage.reactor.stop)
        stage.run()
        assert len(reads) == 10
        assert sorted(read - at for read, at in zip(reads, sent, strict=True))[5] < 0.03


def test_publishers_that_share_a_tick_are_read_within_a_few_milliseconds_and_together(stage: Stage) -> None:
    with sockets() as (ours, theirs):
        reads: list[bytes] = []
        stage.reactor.add(ours.fileno(), READ, lambda _events: reads.append(ours.recv(100)))
        stage.reactor.set_pace(ours.fileno(), READ, Pace.TICK)
        for number in range(100):
            stage.reactor.call_later(number * 0.002, lambda: theirs.sendall(b"x"))
        stage.reactor.call_later(0.3, stage.reactor.stop)
        stage.run()
        assert sum(map(len, reads)) == 100
        assert len(reads) <= 30


def test_the_loop_comes_round_when_something_is_to_be_flushed(stage: Stage) -> None:
    flushed: list[float] = []
    due = time.monotonic() + 0.03

    def flush() -> None:
        if time.monotonic() >= stage.reactor.flush_at:
            flushed.append(time.monotonic())
            stage.reactor.stop()

    stage.reactor.after_events = flush
    stage.reactor.flush_at = due
    stage.run()
    assert flushed
    assert flushed[0] >= due


def test_a_gathered_socket_can_be_removed(stage: Stage) -> None:
    with sockets() as (ours, theirs):
        stage.reactor.add(ours.fileno(), READ, lambda _events: stage.happened.append("called"))
        stage.reactor.set_pace(ours.fileno(), READ, Pace.LAZY)
        stage.reactor.remove(ours.fileno())
        theirs.send(b"x")
        stage.reactor.call_later(0.15, stage.reactor.stop)
        stage.run()
    assert stage.happened == []


@pytest.mark.parametrize("is_background", [False, True])
def test_who_asks_for_a_further_turn_is_not_kept_waiting_for_an_event(stage: Stage, is_background: bool) -> None:
    def again(_events: int) -> None:
        stage.happened.append("turn")
        if len(stage.happened) == 3:
            stage.reactor.stop()
        else:
            stage.reactor.queue(turn)

    turn = Turn(again, is_background=is_background)
    stage.reactor.queue(turn)
    stage.run()


def test_one_who_asks_again_as_soon_as_it_is_answered_is_not_kept_waiting_in_the_background(stage: Stage) -> None:
    with sockets() as (ours, theirs):
        answered: list[int] = []

        def answer(_events: int) -> None:
            answered.append(len(ours.recv(100)))
            theirs.sendall(b"x")
            if len(answered) == 2000:
                stage.reactor.stop()

        stage.reactor.add(ours.fileno(), READ, answer, is_background=True)
        theirs.sendall(b"x")
        began_at = time.monotonic()
        stage.run()
        assert time.monotonic() - began_at < 1.0


def test_a_loop_with_nothing_to_do_sleeps(stage: Stage) -> None:
    rounds: list[int] = []
    stage.reactor.after_events = lambda: rounds.append(1)
    stage.reactor.call_later(0.3, stage.reactor.stop)
    stage.run()
    assert len(rounds) <= 3


def test_the_loop_knows_how_busy_it_is(stage: Stage) -> None:
    reactor = stage.reactor
    shares: list[float] = []

    def work_until(end: float) -> None:
        if time.monotonic() >= end:
            shares.append(reactor.busy_share)
            reactor.stop()
            return
        busy_until = time.monotonic() + 0.010
        while time.monotonic() < busy_until:
            pass
        reactor.call_at(time.monotonic() + 0.010, lambda: work_until(end))

    reactor.call_at(time.monotonic() + 0.6, reactor.stop)
    stage.run()
    assert reactor.busy_share < 0.2
    reactor.call_at(0.0, lambda: work_until(time.monotonic() + 3.0))
    stage.run()
    # Half of its time it works; a machine with others on it only makes that more.
    assert shares[0] > 0.35
