"""Those who ask and the loop: who waits for which cycle, for how long, and what is said."""

import threading
from collections.abc import Callable

import pytest

from penstock.errors import PipelineError
from penstock.pipeline.ops.on_demand import FRESH_US, Demand, OnDemand, Wake
from penstock.pipeline.queries.answers import Answer

NOW_US = 1_800_000_000_000_000
LONG_AGO_US = NOW_US - 60_000_000
STARTING = "Spark is starting for this question, which takes some ten seconds"


class Runner:
    def run(self, query: str, limit: int) -> Answer:
        return Answer((query,), (), is_cut=False)


class Pipeline:
    """Tables that wait for cycles, and a loop in a thread of its own that runs them."""

    def __init__(self, waiting_us: int | None, *, is_warm: bool = True) -> None:
        self.waiting_us = waiting_us
        self.runner: Runner | None = Runner() if is_warm else None
        self.demand = Demand()
        self.cycles = 0
        self.on_cycle: Callable[[], None] = self.take_all
        self.heard: list[str] = []
        self._loop = threading.Thread(target=self._run)

    def take_all(self) -> None:
        self.runner, self.waiting_us = Runner(), None

    def waiting_since_us(self) -> int | None:
        return self.waiting_us

    def query_runner(self) -> Runner | None:
        return self.runner

    def asked(self, within_s: float = 10.0) -> OnDemand:
        return OnDemand(self, self.demand, now_us=lambda: NOW_US, within_s=within_s)

    def _run(self) -> None:
        while self.demand.wait(10.0) is Wake.ASKED:
            self.cycles += 1
            self.on_cycle()
            self.demand.round_done()

    def __enter__(self) -> "Pipeline":
        self._loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.demand.end()
        self._loop.join()


@pytest.mark.parametrize("waiting_us", [None, NOW_US - FRESH_US + 1], ids=["nothing", "something that just landed"])
def test_tables_that_are_fresh_need_no_cycle(waiting_us: int | None) -> None:
    with Pipeline(waiting_us) as pipeline:
        pipeline.asked().refresh(pipeline.heard.append)
    assert (pipeline.cycles, pipeline.heard) == (0, [])


def test_what_landed_a_while_ago_is_waited_for() -> None:
    with Pipeline(NOW_US - FRESH_US) as pipeline:
        pipeline.asked().refresh(pipeline.heard.append)
        assert (pipeline.cycles, pipeline.waiting_us, pipeline.heard) == (1, None, [])


def test_all_who_ask_during_a_cycle_share_it() -> None:
    is_begun, may_end = threading.Event(), threading.Event()
    with Pipeline(LONG_AGO_US) as pipeline:

        def cycle() -> None:
            is_begun.set()
            may_end.wait(10)
            pipeline.take_all()

        pipeline.on_cycle = cycle
        asking = [threading.Thread(target=pipeline.asked().refresh, args=(pipeline.heard.append,)) for _ in range(5)]
        asking[0].start()
        is_begun.wait(10)
        for each in asking[1:]:
            each.start()
        may_end.set()
        for each in asking:
            each.join(10)
        assert not any(each.is_alive() for each in asking)
    assert (pipeline.cycles, pipeline.heard) == (1, [])


def test_nobody_waits_for_more_than_two_cycles_and_is_told_what_is_missing() -> None:
    with Pipeline(LONG_AGO_US) as pipeline:
        pipeline.on_cycle = lambda: None
        pipeline.asked().refresh(pipeline.heard.append)
    assert pipeline.cycles == 2
    assert pipeline.heard == ["the tables do not show yet what landed since 07:59:00 UTC, 60 s ago"]


def test_nobody_waits_for_a_cycle_that_takes_too_long() -> None:
    is_over = threading.Event()
    with Pipeline(LONG_AGO_US) as pipeline:
        pipeline.on_cycle = lambda: assert_set(is_over)
        pipeline.asked(within_s=0.05).refresh(pipeline.heard.append)
        is_over.set()
    assert pipeline.heard == ["the tables do not show yet what landed since 07:59:00 UTC, 60 s ago"]


def assert_set(event: threading.Event) -> None:
    assert event.wait(10)


def test_a_session_is_opened_for_who_asks_and_that_is_told() -> None:
    with Pipeline(None, is_warm=False) as pipeline:
        with pipeline.asked().session(pipeline.heard.append) as runner:
            assert runner.run("q", 1).columns == ("q",)
        with pipeline.asked().session(pipeline.heard.append):
            pass
    assert (pipeline.cycles, pipeline.heard) == (1, [STARTING])


def test_a_cycle_that_needs_a_session_first_is_told_once() -> None:
    with Pipeline(LONG_AGO_US, is_warm=False) as pipeline:
        asked = pipeline.asked()
        asked.refresh(pipeline.heard.append)
        with asked.session(pipeline.heard.append):
            pass
    assert (pipeline.cycles, pipeline.heard) == (1, [STARTING])


def test_a_session_that_does_not_start_is_an_error() -> None:
    with Pipeline(None, is_warm=False) as pipeline:
        pipeline.on_cycle = lambda: None
        with pytest.raises(PipelineError, match="not started within 10 s"), pipeline.asked().session(lambda _: None):
            pass


def test_a_session_is_closed_only_while_nobody_is_answered() -> None:
    demand, closed = Demand(), list[str]()

    def close() -> None:
        closed.append("closed")

    with demand.asking():
        assert not demand.close_unless_asked(close)
        assert demand.was_asked()
    assert demand.was_asked() is False
    assert demand.close_unless_asked(close)
    assert closed == ["closed"]


def test_the_end_wakes_the_loop_and_all_who_wait() -> None:
    demand, ended = Demand(), list[bool]()
    waiting = threading.Thread(target=lambda: ended.append(demand.go_round(60.0)))
    waiting.start()
    while demand.wait(10.0) is not Wake.ASKED:
        pass
    demand.end()
    waiting.join(10)
    assert (ended, demand.wait(10.0)) == ([False], Wake.END)
