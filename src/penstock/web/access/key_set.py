"""Sets of public keys (JWKS, RFC 7517): fetched when they are needed, kept, and looked for again when one is unknown.

Owns how often that may happen: nobody who sends tokens with invented key ids makes this server ask all the time. Keys
that cannot be fetched again go on counting for a day.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import jwt

from penstock.web.access.tokens import VerifyingKey, algorithms_of

FRESH_S: Final = 600.0
STALE_S: Final = 86_400.0
MIN_INTERVAL_S: Final = 30.0
_MAX_KEYS: Final = 32

Fetch = Callable[[], Awaitable[bytes]]
"""Raises OSError if there is nothing to be had."""


class KeySet:
    """The keys of one address or file."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float], on_failure: Callable[[str], None]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._on_failure = on_failure
        self._keys: tuple[VerifyingKey, ...] = ()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._lock = asyncio.Lock()

    async def candidates(self, kid: str | None) -> Iterable[VerifyingKey]:
        if self._age_s(self._fetched_at) > FRESH_S:
            await self._refresh()
        found = self._named(kid)
        if not found:
            await self._refresh()
            found = self._named(kid)
        return found

    def _named(self, kid: str | None) -> tuple[VerifyingKey, ...]:
        if self._age_s(self._fetched_at) > STALE_S:
            return ()
        return tuple(key for key in self._keys if kid is None or key.kid == kid)

    async def _refresh(self) -> None:
        # Who has keys goes on with them while another fetches.
        if self._keys and self._lock.locked():
            return
        async with self._lock:
            if self._age_s(self._tried_at) < MIN_INTERVAL_S:
                return
            self._tried_at = self._clock()
            try:
                self._keys = read_key_set(await self._fetch())
            except (OSError, ValueError) as error:
                self._on_failure(str(error) or type(error).__name__)
            else:
                self._fetched_at = self._tried_at

    def _age_s(self, at: float | None) -> float:
        return float("inf") if at is None else self._clock() - at


def read_key_set(data: bytes) -> tuple[VerifyingKey, ...]:
    """The keys that tokens may be signed with: public ones, not for encryption. Raises ValueError."""
    try:
        listed = json.loads(data)["keys"]
        keys = [key for each in listed[:_MAX_KEYS] if (key := _read_key(each)) is not None]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("no set of keys") from None
    if not keys:
        raise ValueError("a set without a public key for signatures")
    return tuple(keys)


def _read_key(values: object) -> VerifyingKey | None:
    if not isinstance(values, dict) or values.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK.from_dict(values).key
        # Refuses symmetric keys, by which everybody could sign who can read the set.
        algorithms = algorithms_of(key)
    except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError):
        # The last is what PyJWT has for a key whose `alg` is none.
        return None
    named, kid = values.get("alg"), values.get("kid")
    if named is not None:
        algorithms = tuple(each for each in algorithms if each == named)
    return VerifyingKey(key, algorithms, kid if isinstance(kid, str) else None) if algorithms else None
