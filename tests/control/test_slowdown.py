"""Refusals wait longer the more there were, per address, in a table that does not grow."""

import pytest

from penstock.control.slowdown import MAX_ADDRESSES, MAX_DELAY_S, Slowdown


def test_the_first_refusal_is_told_at_once_and_each_further_one_later_up_to_a_bound() -> None:
    slowdown = Slowdown()
    delays = [slowdown.failed("192.0.2.1", 100.0) for _ in range(8)]
    assert delays == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, MAX_DELAY_S, MAX_DELAY_S])


def test_another_address_is_not_slowed_down() -> None:
    slowdown = Slowdown()
    for _ in range(8):
        slowdown.failed("192.0.2.1", 100.0)
    assert slowdown.failed("192.0.2.2", 100.0) == 0.0


def test_addresses_of_one_ipv6_network_are_one() -> None:
    slowdown = Slowdown()
    assert slowdown.failed("2001:db8::1", 100.0) == 0.0
    assert slowdown.failed("2001:db8::2", 100.0) == pytest.approx(0.1)


def test_failures_fade_and_however_many_there_were_are_forgotten_in_two_minutes() -> None:
    slowdown = Slowdown()
    for _ in range(1000):
        slowdown.failed("192.0.2.1", 100.0)
    assert slowdown.failed("192.0.2.1", 110.0) == MAX_DELAY_S
    assert slowdown.failed("192.0.2.1", 230.0) == 0.0


def test_the_address_that_failed_longest_ago_is_forgotten_first() -> None:
    slowdown = Slowdown()
    for number in range(MAX_ADDRESSES + 1):
        slowdown.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 100.0)
    assert len(slowdown) == MAX_ADDRESSES
    assert slowdown.failed("10.0.0.0", 100.0) == 0.0
    assert slowdown.failed("10.0.0.5", 100.0) == pytest.approx(0.1)
