"""How much somebody may do each second, and which addresses are counted together."""

import pytest

from penstock.control.allowance import AddressAllowances, Allowance, address_group, is_loopback


def test_a_burst_is_free_and_what_is_overdrawn_has_to_be_waited_for() -> None:
    units = Allowance(per_s=10, burst=50, now=100.0)
    assert units.spend(50, 100.0) == 0.0
    assert units.spend(5, 100.0) == 0.5
    assert units.spend(10, 100.0) == 1.5


def test_what_was_overdrawn_is_paid_back_with_time() -> None:
    units = Allowance(per_s=10, burst=50, now=100.0)
    units.spend(65, 100.0)
    assert units.spend(0, 101.0) == 0.5
    assert units.spend(0, 101.5) == 0.0
    assert units.spend(1, 101.5) == pytest.approx(0.1), "and nothing was saved up meanwhile"


def test_no_more_is_saved_up_than_a_burst() -> None:
    units = Allowance(per_s=10, burst=50, now=100.0)
    assert units.spend(60, 1_000_000.0) == 1.0


def test_another_rate_begins_with_as_large_a_part_saved_up_as_the_one_before_had() -> None:
    units = Allowance(per_s=10, burst=50, now=100.0)
    units.spend(40, 100.0)
    units.change(per_s=100, burst=200, now=100.0)
    assert units.spend(40, 100.0) == 0.0
    assert units.spend(10, 100.0) == pytest.approx(0.1)


def test_what_was_overdrawn_is_not_forgotten_by_changing_the_rate() -> None:
    """Else a peer that begins and ends a publication between its floods would never be slowed down."""
    units = Allowance(per_s=10, burst=50, now=100.0)
    units.spend(100, 100.0)
    units.change(per_s=100, burst=200, now=100.0)
    assert units.spend(0, 100.0) == 2.0


def test_what_was_saved_until_a_change_counts() -> None:
    units = Allowance(per_s=10, burst=50, now=100.0)
    units.spend(50, 100.0)
    units.change(per_s=100, burst=200, now=105.0)
    assert units.spend(200, 105.0) == 0.0


# By address.


def test_each_address_has_an_allowance_of_its_own() -> None:
    newcomers = AddressAllowances(per_s=1, burst=2)
    assert [newcomers.admits("192.0.2.1", 100.0) for _ in range(3)] == [True, True, False]
    assert newcomers.admits("192.0.2.2", 100.0)


def test_one_that_was_turned_away_has_not_spent_anything() -> None:
    newcomers = AddressAllowances(per_s=1, burst=1)
    assert newcomers.admits("192.0.2.1", 100.0)
    assert not any(newcomers.admits("192.0.2.1", 100.5) for _ in range(1000))
    assert newcomers.admits("192.0.2.1", 101.0)


def test_another_rate_holds_for_who_was_seen_and_gives_nothing_back() -> None:
    newcomers = AddressAllowances(per_s=1, burst=2)
    assert [newcomers.admits("192.0.2.1", 100.0) for _ in range(3)] == [True, True, False]
    newcomers.change(per_s=3, burst=4)
    assert [newcomers.admits("192.0.2.1", now) for now in (100.0, 101.0, 101.0, 101.0, 101.0)] == [
        False,
        *[True] * 3,
        False,
    ]
    assert [newcomers.admits("192.0.2.2", 100.0) for _ in range(5)] == [*[True] * 4, False]


def test_of_too_many_addresses_those_not_seen_for_longest_are_forgotten() -> None:
    newcomers = AddressAllowances(per_s=1, burst=1)
    for address in ("first", "second", *map(str, range(9_998)), "first", "one too many"):
        newcomers.admits(address, 100.0)
    assert not newcomers.admits("first", 100.0), "it was seen later than the second"
    assert newcomers.admits("second", 100.0), "forgotten, and so as good as new"


@pytest.mark.parametrize(
    ("ip", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
    ],
)
def test_an_ipv6_address_counts_with_its_network_and_a_mapped_one_as_what_it_is(ip: str, group: str) -> None:
    assert address_group(ip) == group


@pytest.mark.parametrize(
    ("ip", "is_so"),
    [
        ("127.0.0.1", True),
        ("127.200.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.7", False),
        ("::ffff:192.0.2.7", False),
        ("fe80::1%eth0", False),
    ],
)
def test_loopback_is_known_in_every_notation(ip: str, is_so: bool) -> None:
    assert is_loopback(ip) is is_so
