"""Blocks: by address in whatever spelling, and by subject, until a time."""

from penstock.control import live
from penstock.serve.streams.access.blocks import Blocks


def test_an_address_is_blocked_until_its_time_is_over() -> None:
    blocks = Blocks(live.Blocks({"192.0.2.1": 1000.0}, {}))
    assert blocks.has_addresses
    assert blocks.has_address("192.0.2.1", 999.9)
    assert not blocks.has_address("192.0.2.1", 1000.0)
    assert not blocks.has_address("192.0.2.2", 999.9)


def test_spellings_of_one_address_are_one() -> None:
    blocks = Blocks(live.Blocks({"2001:db8::1": 1000.0, "192.0.2.1": 1000.0, "fe80::1": 1000.0}, {}))
    assert blocks.has_address("2001:DB8:0::1", 0.0)
    assert blocks.has_address("fe80::1%eth0", 0.0)
    assert blocks.has_address("::ffff:192.0.2.1", 0.0)


def test_a_subject_is_blocked_and_nobody_is_not() -> None:
    blocks = Blocks(live.Blocks({}, {"anna": 1000.0}))
    assert not blocks.has_addresses
    assert blocks.has_subject("anna", 0.0)
    assert not blocks.has_subject("bert", 0.0)
    assert not blocks.has_subject(None, 0.0)
