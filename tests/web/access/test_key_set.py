"""Sets of keys: when they are fetched, and which of their keys count."""

import asyncio
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from penstock.web.access.key_set import KeySet, read_key_set

RSA = rsa.generate_private_key(65537, 2048).public_key()
EC = ec.generate_private_key(ec.SECP256R1()).public_key()


def jwk(kid: str | None, key: Any = RSA, **more: Any) -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if key is RSA else jwt.algorithms.ECAlgorithm
    values = algorithm.to_jwk(key, as_dict=True) | ({} if kid is None else {"kid": kid}) | more
    return {name: value for name, value in values.items() if name != "key_ops"}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


class Source:
    """A place that gives out sets of keys, and a clock."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.data = key_set(*keys)
        self.is_down = False
        self.fetches = 0
        self.now = 0.0
        self.failures: list[str] = []
        self.keys = KeySet(self.fetch, lambda: self.now, self.failures.append)

    async def fetch(self) -> bytes:
        self.fetches += 1
        await asyncio.sleep(0)
        if self.is_down:
            raise OSError("status 500")
        return self.data

    def found(self, kid: str | None) -> list[str | None]:
        return asyncio.run(self.find(kid))

    async def find(self, kid: str | None) -> list[str | None]:
        return [each.kid for each in await self.keys.candidates(kid)]


def test_a_set_is_fetched_once_and_kept_for_ten_minutes() -> None:
    source = Source(jwk("a"), jwk("b"))
    assert source.found("a") == ["a"]
    source.now = 599.0
    assert source.found("b") == ["b"]
    assert source.fetches == 1
    source.now = 601.0
    assert source.found("b") == ["b"]
    assert source.fetches == 2


def test_a_token_without_a_key_id_is_tried_with_all() -> None:
    assert Source(jwk("a"), jwk(None)).found(None) == ["a", None]


def test_an_unknown_key_is_looked_for_again_but_not_all_the_time() -> None:
    source = Source(jwk("a"))
    assert source.found("a") == ["a"]
    source.data = key_set(jwk("b"))
    assert source.found("b") == []
    source.now = 31.0
    assert source.found("b") == ["b"]
    assert [source.found(f"invented-{number}") for number in range(100)] == [[]] * 100
    assert source.fetches == 2


def test_keys_that_cannot_be_fetched_again_count_for_a_day() -> None:
    source = Source(jwk("a"))
    assert source.found("a") == ["a"]
    source.is_down = True
    source.now = 80_000.0
    assert source.found("a") == ["a"]
    source.now = 86_401.0
    assert source.found("a") == []
    assert source.failures == ["status 500", "status 500"]


def test_a_place_that_is_down_is_asked_every_thirty_seconds_at_most() -> None:
    source = Source(jwk("a"))
    source.is_down = True
    assert [source.found("a") for _ in range(50)] == [[]] * 50
    assert source.fetches == 1
    source.is_down, source.now = False, 30.0
    assert source.found("a") == ["a"]


def test_many_who_ask_at_once_share_one_fetch() -> None:
    source = Source(jwk("a"))

    async def many() -> list[list[str | None]]:
        return await asyncio.gather(*(source.find("a") for _ in range(100)))

    assert asyncio.run(many()) == [["a"]] * 100
    assert source.fetches == 1


def test_what_is_no_set_of_keys_changes_nothing() -> None:
    source = Source(jwk("a"))
    assert source.found("a") == ["a"]
    source.data, source.now = b"<html>", 700.0
    assert source.found("a") == ["a"]
    assert source.failures == ["no set of keys"]


def test_a_key_is_for_the_algorithm_that_it_names_or_for_those_of_its_kind() -> None:
    keys = read_key_set(key_set(jwk("any"), jwk("one", alg="RS512"), jwk("ec", EC)))
    assert {each.kid: each.algorithms for each in keys} == {
        "any": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        "one": ("RS512",),
        "ec": ("ES256",),
    }


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "a"},
        jwk("a", use="enc"),
        jwk("a", alg="HS256"),
        jwk("a", alg="none"),
        {"kty": "RSA", "kid": "a"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "a"},
        {"kty": 5},
        {},
    ],
)
def test_symmetric_foreign_and_broken_keys_do_not_count(key: dict[str, Any]) -> None:
    assert [each.kid for each in read_key_set(key_set(key, jwk("good")))] == ["good"]
    with pytest.raises(ValueError, match="a set without a public key for signatures"):
        read_key_set(key_set(key))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"keys": 5}', b"\xff", b"[" * 5000, b'{"keys": []}'])
def test_other_documents_are_no_sets(data: bytes) -> None:
    with pytest.raises(ValueError, match="set"):
        read_key_set(data)
