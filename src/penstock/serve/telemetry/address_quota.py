"""How much is told of one address: an allowance for each, and a count of what was held back.

Addresses are counted as the limits on connections count them, IPv6 by its /64.
"""

from collections import Counter
from typing import NamedTuple

from penstock.control.allowance import AddressAllowances, address_group, is_loopback


class QuotaLimits(NamedTuple):
    """What is let through for each address."""

    per_s: float = 20.0
    burst: float = 500.0
    """At once, after a while of silence: a crowd behind one address that comes together is told of in full."""
    exempts_loopback: bool = True
    """Proxies and load tests come from there, many clients behind one address."""


class HeldBack(NamedTuple):
    """What was not told since it was last asked for."""

    total: int
    addresses: int
    most_from: str
    """The address of which most was held back."""
    most: int


class AddressQuota:
    """Decides for each thing to be told whether its address has any left. For one thread."""

    def __init__(self, limits: QuotaLimits | None = None) -> None:
        self._limits = limits or QuotaLimits()
        self._allowances = AddressAllowances(self._limits.per_s, self._limits.burst)
        self.held_back_total = 0
        self._held_back: Counter[str] = Counter()

    @property
    def limits(self) -> QuotaLimits:
        """May be replaced while it goes on."""
        return self._limits

    @limits.setter
    def limits(self, limits: QuotaLimits) -> None:
        self._limits = limits
        self._allowances.change(limits.per_s, limits.burst)

    def admit(self, peer_addr: str, now: float) -> bool:
        """Whether one more of a peer, named by its address and port, may be told."""
        ip = peer_addr.rpartition(":")[0].strip("[]")
        if self._limits.exempts_loopback and is_loopback(ip):
            return True
        address = address_group(ip)
        if self._allowances.admits(address, now):
            return True
        self.held_back_total += 1
        self._held_back[address] += 1
        return False

    def take_held_back(self) -> HeldBack | None:
        """What was held back since the last call; None: nothing."""
        if not self._held_back:
            return None
        held_back, self._held_back = self._held_back, Counter()
        ((address, most),) = held_back.most_common(1)
        return HeldBack(held_back.total(), len(held_back), address, most)
