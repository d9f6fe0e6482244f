"""Whether the wall clock can be trusted with deleting."""

import pytest

from penstock.serve.recording.clock_watch import ClockWatch


class Clocks:
    def __init__(self) -> None:
        self.now = 500.0
        self.wall = 1_759_320_000.0

    def pass_s(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds


def test_a_clock_that_runs_evenly_is_trusted() -> None:
    clocks = Clocks()
    watch = ClockWatch(lambda: clocks.now, lambda: clocks.wall)
    for seconds in (0.0, 60.0, 86_400.0):
        clocks.pass_s(seconds)
        assert (watch.jump_s(), watch.is_trusted) == (None, True)


def test_small_corrections_are_no_jump() -> None:
    clocks = Clocks()
    watch = ClockWatch(lambda: clocks.now, lambda: clocks.wall)
    for correction_s in (60.0, -60.0, 59.0):
        clocks.wall += correction_s
        assert (watch.jump_s(), watch.is_trusted) == (None, True)


@pytest.mark.parametrize("jump_s", [61.0, -61.0, 10.0**9])
def test_a_jump_either_way_is_told_once_and_costs_an_hour_of_trust(jump_s: float) -> None:
    clocks = Clocks()
    watch = ClockWatch(lambda: clocks.now, lambda: clocks.wall)
    clocks.wall += jump_s
    assert (watch.jump_s(), watch.is_trusted) == (jump_s, False)
    clocks.pass_s(3599.0)
    assert (watch.jump_s(), watch.is_trusted) == (None, False)
    clocks.pass_s(1.0)
    assert (watch.jump_s(), watch.is_trusted) == (None, True)
