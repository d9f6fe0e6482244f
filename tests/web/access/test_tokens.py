"""Which tokens let in, by keys of every kind, and the tricks that do not work."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from penstock.access.request import Action, Grant
from penstock.errors import ConfigError
from penstock.web.access.tokens import OneKey, Tokens, algorithms_of, is_stream_like, key_of_pem

SECRET = b"0123456789abcdef0123456789abcdef"
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
EXP = int(time.time()) + 600


def public_pem(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def claims(**more: Any) -> dict[str, Any]:
    ours = {"actions": ["publish", "play"], "streams": ["live/*"]}
    all_claims = {"sub": "alice", "exp": EXP, "aud": "penstock", "penstock": ours} | more
    return {name: value for name, value in all_claims.items() if value is not None}


def token(key: Any = SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **more: Any) -> str:
    return jwt.encode(claims(**more), key, algorithm, headers)


def granted(
    text: str, secret: bytes = SECRET, action: Action = "publish", app: str = "live", stream: str = "x"
) -> Grant | None:
    return asyncio.run(Tokens(OneKey(secret), "penstock").grant(text, action, app, stream))


def test_a_token_lets_in_until_it_expires_and_the_leeway_is_over() -> None:
    assert granted(token()) == Grant("alice", EXP + 30.0)
    assert granted(token(sub=None)) == Grant(None, EXP + 30.0)


@pytest.mark.parametrize("seconds", [-31, -3600])
def test_an_expired_token_does_not_let_in(seconds: int) -> None:
    assert granted(token(exp=int(time.time()) + seconds)) is None


def test_clocks_may_differ_by_thirty_seconds() -> None:
    now = int(time.time())
    assert granted(token(exp=now - 25)) is not None
    assert granted(token(nbf=now + 25)) is not None
    assert granted(token(nbf=now + 60)) is None


@pytest.mark.parametrize(
    "more",
    [
        {"exp": None},
        {"exp": "soon"},
        {"exp": float("inf")},
        {"aud": None},
        {"aud": "other"},
        {"aud": ["other"]},
        {"sub": 5},
        {"sub": "a\nb"},
        {"sub": ""},
        {"sub": "x" * 256},
        {"penstock": None},
        {"penstock": {}},
        {"penstock": []},
        {"penstock": {"actions": ["play"], "streams": ["live/*"]}},
        {"penstock": {"actions": "publish", "streams": ["live/*"]}},
        {"penstock": {"actions": ["publish"], "streams": "live/*"}},
        {"penstock": {"actions": ["publish"], "streams": []}},
        {"penstock": {"actions": ["publish"], "streams": ["other/*", 5]}},
    ],
)
def test_a_token_that_says_less_or_something_else_does_not_let_in(more: dict[str, Any]) -> None:
    assert granted(forged({"alg": "HS256", "typ": "JWT"}, claims(**more))) is None


def forged(header: dict[str, Any], payload: dict[str, Any], secret: bytes = SECRET) -> str:
    """A token whose parts no library would put together."""

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    signed = part(json.dumps(header).encode()) + b"." + part(json.dumps(payload).encode())
    return (signed + b"." + part(hmac.digest(secret, signed, hashlib.sha256))).decode()


def test_a_token_for_several_audiences_is_for_us_too() -> None:
    assert granted(token(aud=["other", "penstock"])) is not None


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS512"), (EC, "ES256"), (ED, "EdDSA")], ids=lambda each: str(each)[:9]
)
def test_a_pem_is_for_the_algorithms_of_its_key(key: Any, algorithm: str) -> None:
    assert granted(token(key, algorithm), public_pem(key)) == Grant("alice", EXP + 30.0)


def test_a_certificate_counts_as_its_key() -> None:
    name = x509.Name([])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, RSA.public_key(), 1, now, now + timedelta(days=1))
    certificate = builder.sign(RSA, hashes.SHA256()).public_bytes(Encoding.PEM)
    assert granted(token(RSA, "RS256"), certificate) is not None


def test_a_public_key_is_never_taken_for_a_secret() -> None:
    pem = public_pem(RSA)
    assert granted(forged({"alg": "HS256"}, claims(), pem), pem) is None
    assert granted(forged({"alg": "HS256"}, claims(), pem.rstrip(b"\n")), pem.rstrip(b"\n")) is None


@pytest.mark.parametrize("algorithm", ["none", "None", "HS384", "HS512", "RS256", "", None, 5])
def test_the_key_fixes_the_algorithm_whatever_the_header_says(algorithm: object) -> None:
    assert granted(forged({"alg": algorithm}, claims())) is None


def test_a_token_without_a_signature_does_not_let_in() -> None:
    unsigned = jwt.encode(claims(), "", "none")
    assert granted(unsigned) is None
    assert granted(token().rpartition(".")[0] + ".") is None
    assert granted(token()[:-2]) is None


@pytest.mark.parametrize("name", ["jku", "x5u", "jwk"])
def test_a_header_that_brings_its_own_key_counts_for_nothing(name: str) -> None:
    own = b"fedcba9876543210fedcba9876543210"
    jwk = {"kty": "oct", "k": base64.urlsafe_b64encode(own).decode()}
    header = {"alg": "HS256", name: jwk if name == "jwk" else "http://127.0.0.1:1/keys"}
    assert granted(forged(header, claims(), own)) is None
    assert granted(forged(header, claims())) is not None, "and does no harm"


def test_extensions_that_are_called_critical_are_none_that_we_know() -> None:
    assert granted(forged({"alg": "HS256", "crit": ["exp2"], "exp2": 5}, claims())) is None


@pytest.mark.parametrize("text", ["", "x", "a.b", "a.b.c", "..", "é.é.é", "x" * 9000, "W1tb" * 700 + ".e30.x"])
def test_what_is_no_token_does_not_let_in(text: str) -> None:
    assert granted(text) is None


@pytest.mark.parametrize(
    ("pattern", "app", "stream", "is_like"),
    [
        ("live/*", "live", "x", True),
        ("live/*", "live", "a/b", True),
        ("live/*", "live/inner", "x", False),
        ("live/inner/*", "live/inner", "x", True),
        ("live/main", "live", "main", True),
        ("live/main", "live", "Main", False),
        ("*/*", "any", "thing", True),
        ("live", "live", "", False),
        ("live/ma?n", "live", "main", True),
    ],
)
def test_a_pattern_has_the_streams_of_its_app(pattern: str, app: str, stream: str, is_like: bool) -> None:
    assert is_stream_like(pattern, app, stream) is is_like


def test_what_is_no_public_key_is_told_without_repeating_it() -> None:
    private = RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    small = public_pem(rsa.generate_private_key(65537, 1024))
    for pem in (private, small, b"-----BEGIN PUBLIC KEY-----\nhunter2\n-----END PUBLIC KEY-----"):
        with pytest.raises(ConfigError, match=r"^auth\.jwt: what it refers to should be a secret, a public key or"):
            key_of_pem(pem)


def test_a_key_of_another_kind_is_for_nothing_here() -> None:
    with pytest.raises(ValueError, match="no key that tokens are verified by"):
        algorithms_of(dsa.generate_private_key(2048).public_key())
