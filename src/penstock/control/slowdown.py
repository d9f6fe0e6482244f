"""How long the refusals of one address wait: longer the more there were.

Owns the count of each address, IPv6 by its /64, which fades with time. The table is bounded; the address that failed
longest ago is forgotten first. Who is let in is never held up.
"""

from collections import OrderedDict
from typing import Final

from penstock.control.allowance import address_group

MAX_ADDRESSES: Final = 10_000
MAX_DELAY_S: Final = 2.0
"""A connection that waits for its refusal is one that an address cannot use for another try."""
_FIRST_DELAY_S: Final = 0.1
"""Of the second refusal; the first is told at once, as a typing error is nobody's attack."""
_FADES_IN_S: Final = 10.0
"""How long it takes until one failure is forgotten."""
_MAX_FAILURES: Final = 12.0
"""Counted of one address: it is forgotten two minutes after its last."""


class Slowdown:
    """Failures by address."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """How many, and when the last one was, the latest at the end."""

    def __len__(self) -> int:
        return len(self._failures)

    def failed(self, ip: str, now: float) -> float:
        """One more failure: how many seconds its answer waits."""
        address = address_group(ip)
        known, at = self._failures.pop(address, (0.0, now))
        failures = min(_MAX_FAILURES, max(0.0, known - (now - at) / _FADES_IN_S) + 1.0)
        self._failures[address] = failures, now
        if len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
        return 0.0 if failures < 2.0 else min(MAX_DELAY_S, _FIRST_DELAY_S * 2.0 ** (failures - 2.0))
