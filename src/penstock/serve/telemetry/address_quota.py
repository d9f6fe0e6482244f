"""How much is told of one address: a token bucket for each, and a count of what was held back.

Addresses are counted as the limits on connections count them, IPv6 by its /64. The table is bounded; the address that
was quiet longest is forgotten first, and begins with a full bucket if it comes again.
"""

from collections import Counter, OrderedDict
from typing import NamedTuple

from penstock.control.allowance import address_group, is_loopback

MAX_ADDRESSES = 10_000


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


class _Bucket:
    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens = tokens
        self.at = at


class AddressQuota:
    """Decides for each thing to be told whether its address has any left. For one thread."""

    def __init__(self, limits: QuotaLimits | None = None) -> None:
        self.limits = limits or QuotaLimits()
        self.held_back_total = 0
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._held_back: Counter[str] = Counter()

    def admit(self, peer_addr: str, now: float) -> bool:
        """Whether one more of a peer, named by its address and port, may be told."""
        ip, limits = peer_addr.rpartition(":")[0].strip("[]"), self.limits
        if limits.exempts_loopback and is_loopback(ip):
            return True
        address = address_group(ip)
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = self._buckets[address] = _Bucket(limits.burst, now)
            if len(self._buckets) > MAX_ADDRESSES:
                self._buckets.popitem(last=False)
        else:
            bucket.tokens = min(limits.burst, bucket.tokens + (now - bucket.at) * limits.per_s)
            bucket.at = now
            self._buckets.move_to_end(address)
        if bucket.tokens >= 1.0:
            bucket.tokens -= 1.0
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
