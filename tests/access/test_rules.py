"""How rules are spelled, and what addresses they have."""

import ipaddress

import pytest

from penstock.access.rules import Alternative, ip_of, read_rule_text, rules_of


def test_an_alternative_is_one_condition_or_several() -> None:
    rules = rules_of(read_rule_text(["key", ["ip:10.0.0.0/8", "jwt"]]))
    assert rules == (
        Alternative(("key",)),
        Alternative((ipaddress.ip_network("10.0.0.0/8"), "jwt")),
    )
    assert [each.name for each in rules] == ["key", "ip:10.0.0.0/8+jwt"]
    assert [each.needs_web for each in rules] == [False, True]


def test_networks_have_one_spelling() -> None:
    assert read_rule_text(["ip:192.0.2.7", ["ip:2001:DB8::/32"]]) == ("ip:192.0.2.7/32", ("ip:2001:db8::/32",))


@pytest.mark.parametrize(
    "value",
    ["open", None, 5, {}, ["opened"], [[]], [["key", []]], [["key", ["open"]]], ["ip:"], ["ip:10.0.0.1/8"], [5]],
)
def test_other_rules_are_refused_with_what_is_allowed(value: object) -> None:
    with pytest.raises(ValueError, match="should be a list of rules, such as"):
        read_rule_text(value)


@pytest.mark.parametrize(
    ("text", "ip"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_an_address_is_compared_as_what_it_is(text: str, ip: str) -> None:
    assert str(ip_of(text)) == ip


@pytest.mark.parametrize("text", [None, "", "unix", "192.0.2.1:5", "192.0.2.256"])
def test_what_is_no_address_is_in_no_network(text: str | None) -> None:
    assert ip_of(text) is None
