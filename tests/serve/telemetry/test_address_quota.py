"""How much is told of one address: a burst, then so much a second, and the rest is counted."""

import pytest

from penstock.config import Config
from penstock.serve.configured import quota_limits_of
from penstock.serve.telemetry.address_quota import AddressQuota, HeldBack, QuotaLimits

LIMITS = QuotaLimits(per_s=2.0, burst=3.0, exempts_loopback=False)


def admitted(quota: AddressQuota, peer_addr: str, now: float, asked: int = 10) -> int:
    return sum(quota.admit(peer_addr, now) for _ in range(asked))


def test_a_burst_passes_and_then_so_much_a_second() -> None:
    quota = AddressQuota(LIMITS)
    assert [admitted(quota, "192.0.2.1:5000", now) for now in (100.0, 100.0, 101.0, 102.5)] == [3, 0, 2, 3]


def test_silence_saves_up_a_burst_and_no_more() -> None:
    quota = AddressQuota(LIMITS)
    admitted(quota, "192.0.2.1:5000", 100.0)
    assert admitted(quota, "192.0.2.1:5000", 10_000.0) == 3


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1:5000", "192.0.2.1:5001", True),
        ("192.0.2.1:5000", "192.0.2.2:5000", False),
        ("2001:db8:0:1::1:5000", "2001:db8:0:1:ffff::2:5000", True),
        ("2001:db8:0:1::1:5000", "2001:db8:0:2::1:5000", False),
        ("[2001:db8:0:1::1]:5000", "2001:db8:0:1::2:5000", True),
        ("::ffff:192.0.2.1:5000", "192.0.2.1:5000", True),
        ("fe80::1%eth0:5000", "fe80::2%eth1:5000", True),
    ],
)
def test_an_address_is_one_of_ipv4_or_64_bits_of_ipv6(one: str, other: str, is_same: bool) -> None:
    quota = AddressQuota(LIMITS)
    admitted(quota, one, 100.0)
    assert admitted(quota, other, 100.0) == (0 if is_same else 3)


def test_what_was_held_back_is_told_once_with_the_address_of_most_of_it() -> None:
    quota = AddressQuota(LIMITS)
    assert quota.take_held_back() is None
    admitted(quota, "192.0.2.1:5000", 100.0, asked=5)
    admitted(quota, "2001:db8::1:5000", 100.0, asked=7)
    assert quota.take_held_back() == HeldBack(total=6, addresses=2, most_from="2001:db8::/64", most=4)
    assert quota.take_held_back() is None
    assert quota.held_back_total == 6


@pytest.mark.parametrize("peer_addr", ["127.0.0.1:5000", "127.9.9.9:5000", "::1:5000", "::ffff:127.0.0.1:5000"])
def test_this_machine_is_exempt_as_long_as_the_limits_say_so(peer_addr: str) -> None:
    quota = AddressQuota(LIMITS._replace(exempts_loopback=True))
    assert admitted(quota, peer_addr, 100.0, asked=100) == 100
    quota.limits = LIMITS
    assert admitted(quota, peer_addr, 100.0, asked=100) == 3


def test_other_limits_hold_for_addresses_that_were_there_before() -> None:
    quota = AddressQuota(LIMITS)
    assert admitted(quota, "192.0.2.1:1", 100.0) == 3
    quota.limits = LIMITS._replace(per_s=4.0, burst=6.0)
    assert (admitted(quota, "192.0.2.1:1", 100.0), admitted(quota, "192.0.2.2:1", 100.0)) == (0, 6)
    assert admitted(quota, "192.0.2.1:1", 101.0) == 4


def test_the_limits_follow_the_connections_that_an_address_may_have() -> None:
    assert quota_limits_of(Config()) == QuotaLimits() == (20.0, 500.0, True)
    of_a_proxy = Config.model_validate({"limits": {"max_connections_per_ip": 10_000, "exempts_loopback": False}})
    assert quota_limits_of(of_a_proxy) == (2000.0, 50_000.0, False)
