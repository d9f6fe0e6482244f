"""Keys: how they are made, and the lines that verify them.

Owns the formats `NAME:sha256:HEX`, the same with `:adobe:SALT:VERIFIER` behind it, and `NAME:ROLE:sha256:HEX` for the
API. A key is 160 random bits, so one round of SHA-256 is enough: there is nothing to guess. What is compared takes the
same time wherever it differs.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

KEY_BYTES: Final = 20
SALT_BYTES: Final = 9

Role = Literal["read", "operate", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""Each may what those before it may."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)
"""FFmpeg keeps 49 characters of a user."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
# FFmpeg and librtmp cut the salt out of a query without decoding anything.
_SALT: Final = re.compile(r"[A-Za-z0-9_-]{8,64}", re.ASCII)
_VERIFIER: Final = re.compile(r"[A-Za-z0-9+/]{22}==", re.ASCII)

NAME_ALLOWED: Final = "should be 1 to 40 letters, digits, dots, hyphens or underscores, a letter or digit first"
_KEY_LINE_ALLOWED: Final = "should be lines as `penstock key make NAME` prints them: NAME:sha256:HEX"
_ROLE_LINE_ALLOWED: Final = "should be lines as `penstock key make NAME --role read` prints them: NAME:ROLE:sha256:HEX"


@dataclass(frozen=True, slots=True)
class AdobeVerifier:
    """What Adobe's challenge is checked by. Whoever has it can answer the challenge as well as the key's owner."""

    salt: str
    verifier: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One key that publishes or plays."""

    name: str
    digest: bytes = field(repr=False)
    adobe: AdobeVerifier | None = None


@dataclass(frozen=True, slots=True)
class RoleLine:
    """One token of the API."""

    name: str
    role: Role
    digest: bytes = field(repr=False)


def make_key(random_bytes: bytes) -> str:
    """A key of 160 bits, in letters and digits that no URL, shell or form changes."""
    if len(random_bytes) != KEY_BYTES:
        raise ValueError(f"a key is made of {KEY_BYTES} bytes, not of {len(random_bytes)}")
    return base64.b32encode(random_bytes).decode().lower()


def make_salt(random_bytes: bytes) -> str:
    return base64.urlsafe_b64encode(random_bytes).decode().rstrip("=")


def key_line(name: str, key: str, salt: str | None = None) -> str:
    """What verifies the key; with a salt by Adobe's challenge too."""
    line = f"{name}:sha256:{digest_of(key).hex()}"
    return line if salt is None else f"{line}:adobe:{salt}:{adobe_verifier(name, salt, key)}"


def role_line(name: str, role: Role, key: str) -> str:
    return f"{name}:{role}:sha256:{digest_of(key).hex()}"


def adobe_verifier(name: str, salt: str, key: str) -> str:
    """As clients make it of user, salt and password: the scheme has MD5."""
    digest = hashlib.md5((name + salt + key).encode("utf-8", "surrogateescape"), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def digest_of(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def read_key_line(text: str) -> KeyLine:
    """Raises ValueError, which does not repeat the line: a key may have been pasted instead."""
    match text.split(":"):
        case [name, "sha256", digest] if NAME.fullmatch(name) and _SHA256.fullmatch(digest):
            return KeyLine(name, bytes.fromhex(digest))
        case [name, "sha256", digest, "adobe", salt, verifier] if (
            NAME.fullmatch(name)
            and _SHA256.fullmatch(digest)
            and _SALT.fullmatch(salt)
            and _VERIFIER.fullmatch(verifier)
        ):
            return KeyLine(name, bytes.fromhex(digest), AdobeVerifier(salt, verifier))
    raise ValueError(_KEY_LINE_ALLOWED)


def read_role_line(text: str) -> RoleLine:
    """Raises ValueError, which does not repeat the line."""
    match text.split(":"):
        case [name, role, "sha256", digest] if NAME.fullmatch(name) and _SHA256.fullmatch(digest):
            for known in ROLES:
                if role == known:
                    return RoleLine(name, known, bytes.fromhex(digest))
    raise ValueError(_ROLE_LINE_ALLOWED)


def find_key(lines: Iterable[KeyLine], key: str) -> KeyLine | None:
    """The line that verifies a key. Every line is looked at."""
    digest = digest_of(key)
    found = None
    for line in lines:
        if hmac.compare_digest(line.digest, digest):
            found = line
    return found


def find_role(lines: Iterable[RoleLine], key: str) -> RoleLine | None:
    """The same for the API."""
    digest = digest_of(key)
    found = None
    for line in lines:
        if hmac.compare_digest(line.digest, digest):
            found = line
    return found
