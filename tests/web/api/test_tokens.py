"""Who is let in, by token or by address."""

import pytest

from penstock.web.api.tokens import FORWARDING_HEADERS, Caller, NotLetIn, Role, Tokens
from tests.web.api.calling import KEYS, TOKENS


def who(
    token: str | None = None, address: str | None = "192.0.2.1", *, loopback_reads: bool = True, header: bytes = b""
) -> Caller | NotLetIn:
    headers = {} if token is None else {b"authorization": token.encode()}
    return Tokens(KEYS, loopback_reads=loopback_reads).caller(headers | ({header: b"x"} if header else {}), address)


def test_a_token_has_a_name_and_a_role() -> None:
    assert who(f"Bearer {TOKENS['operate']}") == Caller("operateer", Role.OPERATE)
    assert who(f"bearer  {TOKENS['admin']} ") == Caller("adminer", Role.ADMIN)


@pytest.mark.parametrize("token", ["Bearer x", "Bearer", "Bearer " + "r" * 31, "Bearer \xff"])
def test_an_unknown_token_is_refused_even_on_this_machine(token: str) -> None:
    assert who(token, "127.0.0.1") is NotLetIn.UNKNOWN


def test_other_credentials_are_none() -> None:
    assert who("Basic cjpyCg==", "127.0.0.1") is NotLetIn.WITHOUT


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_may_read_without_a_token(address: str) -> None:
    assert who(address=address) == Caller(None, Role.READ)


@pytest.mark.parametrize("address", ["192.0.2.1", "::ffff:192.0.2.1", None, "", "localhost"])
def test_others_and_unknown_addresses_may_not(address: str | None) -> None:
    assert who(address=address) is NotLetIn.WITHOUT


def test_this_machine_may_not_where_the_operator_says_so() -> None:
    assert who(address="127.0.0.1", loopback_reads=False) is NotLetIn.WITHOUT


@pytest.mark.parametrize("header", sorted(FORWARDING_HEADERS))
def test_who_speaks_for_others_is_not_this_machine(header: bytes) -> None:
    assert who(address="127.0.0.1", header=header) is NotLetIn.WITHOUT


def test_a_line_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="NAME:ROLE:sha256:HEX"):
        Tokens(["boss:king:sha256:00"], loopback_reads=True)
