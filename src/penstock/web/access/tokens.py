"""JSON Web Tokens: whether one lets its bearer publish or play a stream, and until when.

PyJWT verifies; this module says by which key and algorithm, and reads what is ours of the claims. The key fixes the
algorithm: what a token's header says of `none`, `jku`, `x5u` or `jwk` counts for nothing, and PyJWT refuses extensions
that a token calls critical (`crit`).
"""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from penstock.access.request import Action, Grant
from penstock.config_secrets import PEM_START
from penstock.errors import ConfigError

LEEWAY_S: Final = 30
_MAX_CHARACTERS: Final = 8192
_MAX_SUBJECT_CHARACTERS: Final = 255
_MIN_RSA_BITS: Final = 2048
_OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_OF_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512", "secp256k1": "ES256K"}
# Besides its own errors, PyJWT lets through what int() and nesting without end give.
_NO_TOKEN: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key, and the algorithms that it is for."""

    key: Any = field(repr=False)
    algorithms: tuple[str, ...]
    kid: str | None = None


class Keys(Protocol):
    """Where keys come from."""

    async def candidates(self, kid: str | None) -> Iterable[VerifyingKey]:
        """Those that a token which names this one may be signed with."""


class OneKey:
    """The key of `auth.jwt`: a secret, or a PEM."""

    def __init__(self, secret: bytes) -> None:
        self._key = key_of_pem(secret) if secret.lstrip().startswith(PEM_START) else VerifyingKey(secret, ("HS256",))

    async def candidates(self, kid: str | None) -> Iterable[VerifyingKey]:  # noqa: ARG002 - there is but one
        return (self._key,)


class Tokens:
    """What tokens grant."""

    def __init__(self, keys: Keys, audience: str) -> None:
        self._keys = keys
        self._audience = audience

    async def grant(self, token: str, action: Action, app: str, stream: str) -> Grant | None:
        """None: it does not let in."""
        if len(token) > _MAX_CHARACTERS:
            return None
        try:
            header = jwt.get_unverified_header(token)
        except _NO_TOKEN:
            return None
        kid = header.get("kid")
        for key in await self._keys.candidates(kid if isinstance(kid, str) else None):
            claims = self._claims(token, key)
            if claims is not None:
                return _granted(claims, action, app, stream)
        return None

    def _claims(self, token: str, key: VerifyingKey) -> dict[str, Any] | None:
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                audience=self._audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "aud"]},
            )
        except _NO_TOKEN:
            return None


def _granted(claims: dict[str, Any], action: Action, app: str, stream: str) -> Grant | None:
    subject, ours = claims.get("sub"), claims.get("penstock")
    if subject is not None and not _is_subject(subject):
        return None
    match ours:
        case {"actions": [*actions], "streams": [*patterns]}:
            if action not in actions or not any(is_stream_like(each, app, stream) for each in patterns):
                return None
            return Grant(subject, float(claims["exp"]) + LEEWAY_S)
    return None


def is_stream_like(pattern: object, app: str, stream: str) -> bool:
    """Whether a pattern of APP/STREAM has this stream. `live/*` has no streams of the app `live/inner`."""
    if not isinstance(pattern, str):
        return False
    parts = pattern.split("/")
    return any(
        fnmatch.fnmatchcase(app, "/".join(parts[:cut])) and fnmatch.fnmatchcase(stream, "/".join(parts[cut:]))
        for cut in range(1, len(parts))
    )


def _is_subject(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_SUBJECT_CHARACTERS and value.isprintable()


def key_of_pem(pem: bytes) -> VerifyingKey:
    """A public key or certificate. Raises ConfigError."""
    try:
        if b"CERTIFICATE" in pem.partition(b"\n")[0]:
            key: object = x509.load_pem_x509_certificate(pem).public_key()
        else:
            key = load_pem_public_key(pem)
        return VerifyingKey(key, algorithms_of(key))
    except ValueError:
        raise ConfigError("auth.jwt: what it refers to should be a secret, a public key or a certificate") from None


def algorithms_of(key: object) -> tuple[str, ...]:
    """What a public key is for. Raises ValueError for one that is for nothing here."""
    if isinstance(key, RSAPublicKey) and key.key_size >= _MIN_RSA_BITS:
        return _OF_RSA
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _OF_CURVES:
        return (_OF_CURVES[key.curve.name],)
    if isinstance(key, Ed25519PublicKey):
        return ("EdDSA",)
    raise ValueError("no key that tokens are verified by")
