"""Delays between attempts."""

import pytest

from penstock.web.hooks.retries import Retries

RETRIES = Retries(first_s=1.0, longest_s=60.0, give_up_after_s=1000.0)


@pytest.mark.parametrize(("attempts", "delay_s"), [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (999, 60.0)])
def test_each_delay_is_twice_the_one_before_up_to_a_bound(attempts: int, delay_s: float) -> None:
    assert RETRIES.delay_s(attempts, chance=1.0, age_s=0.0) == delay_s


def test_half_of_a_delay_is_jitter() -> None:
    assert [RETRIES.delay_s(3, chance, 0.0) for chance in (0.0, 0.5, 1.0)] == [2.0, 3.0, 4.0]


def test_a_receiver_may_ask_for_more_within_the_bound() -> None:
    assert [RETRIES.delay_s(1, 1.0, 0.0, asked) for asked in (0.5, 30.0, 86_400.0)] == [1.0, 30.0, 60.0]


def test_the_last_attempt_is_at_the_end_and_none_comes_after_it() -> None:
    assert RETRIES.delay_s(9, 1.0, age_s=990.0) == 10.0
    assert RETRIES.delay_s(10, 1.0, age_s=1000.0) is None


def test_by_default_a_message_is_tried_for_a_day() -> None:
    age_s, attempts = 0.0, 0
    while (delay_s := Retries().delay_s(attempts := attempts + 1, 1.0, age_s)) is not None:
        age_s += delay_s
    assert (age_s, attempts) == (86_400.0, 36)
