"""Whose word is taken about who a request is from."""

import pytest

from penstock.serve.http.proxies import TrustedProxies


@pytest.mark.parametrize("peer", ["10.1.2.3:80", "[::ffff:10.1.2.3]:80"])
def test_a_proxy_is_known_by_its_network_whichever_way_it_came(peer: str) -> None:
    proxies = TrustedProxies(("10.0.0.0/8",))
    assert proxies.address_of(peer, {b"x-forwarded-for": b"192.0.2.7"}) == "192.0.2.7:0"


def test_a_strangers_word_is_not_taken() -> None:
    proxies = TrustedProxies(("10.0.0.0/8",))
    assert proxies.address_of("192.0.2.9:80", {b"x-forwarded-for": b"192.0.2.7"}) == "192.0.2.9:80"
