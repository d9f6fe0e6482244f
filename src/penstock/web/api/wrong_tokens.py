"""Callers with a token that is not known: counted, told in the log, and answered later the more there were.

Owns how long such an answer waits. Who has a token that is known, or none, is never held up. Answers that wait take up
room that others need, so beyond a bound they are given at once: a token has 160 bits, and the wait is there to be
noticed.
"""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.control.slowdown import Slowdown
from penstock.logs import OncePerSecond, get_logger

LIMIT: Final = "api tokens"
"""What they are counted as, among the limits."""
MAX_WAITING: Final = 16
"""A quarter of the requests that may be open."""
_UNKNOWN: Final = "::"
"""Stands for every address that is not known, or is none: a trusted proxy passes on what it was told."""


class WrongTokens:
    """All that there were."""

    def __init__(
        self,
        clock: Callable[[], float],
        counts: Counter[str] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`counts` is where the limit is counted, with others."""
        self._clock = clock
        self._sleep = sleep
        self._counts: Counter[str] = Counter() if counts is None else counts
        self._slowdown = Slowdown()
        self._waiting = 0
        self._warnings = OncePerSecond(clock)

    async def shown(self, address: str | None) -> None:
        """One more, from this address; None: it is not known. Return when it may be answered."""
        now = self._clock()
        self._counts[LIMIT] += 1
        known = address if is_address(address) else None
        self._log(known)
        delay_s = self._slowdown.failed(known or _UNKNOWN, now)
        if delay_s == 0.0 or self._waiting >= MAX_WAITING:
            return
        self._waiting += 1
        try:
            await self._sleep(delay_s)
        finally:
            self._waiting -= 1

    def _log(self, address: str | None) -> None:
        if (swallowed := self._warnings.admit()) is not None:
            reason = f"a token that is not known, from {address or 'an unknown address'}"
            get_logger().warning(f"Limit hit: {LIMIT}", limit=LIMIT, reason=reason, swallowed=swallowed)


def is_address(text: str | None) -> bool:
    """Whether it is one of IPv4 or IPv6."""
    try:
        return text is not None and bool(ipaddress.ip_address(text))
    except ValueError:
        return False
