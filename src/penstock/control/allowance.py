"""Allowances: how much somebody may do each second, with some saved up for bursts.

Owns the arithmetic of token buckets, and how addresses are counted together. Knows no sockets and no clock.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address

_MAX_ADDRESSES = 10_000


class Allowance:
    """So much per second. What is not used is saved up to a bound; what was overdrawn has to be waited for."""

    __slots__ = ("_at", "_left", "burst", "per_s")

    def __init__(self, per_s: float, burst: float, now: float) -> None:
        self.per_s = per_s
        self.burst = burst
        self._left = burst
        self._at = now

    def spend(self, amount: float, now: float) -> float:
        """How many seconds it takes until nothing is overdrawn; 0 if nothing is."""
        self._save(now)
        self._left -= amount
        return -self._left / self.per_s if self._left < 0 else 0.0

    def covers(self, amount: float, now: float) -> bool:
        """Spend that much, if so much is left."""
        self._save(now)
        if self._left < amount:
            return False
        self._left -= amount
        return True

    def change(self, per_s: float, burst: float, now: float) -> None:
        """Go on by another rate, with as large a part of its burst saved up, or overdrawn."""
        self._save(now)
        self._left *= burst / self.burst
        self.per_s, self.burst = per_s, burst

    def _save(self, now: float) -> None:
        self._left = min(self.burst, self._left + (now - self._at) * self.per_s)
        self._at = now


class AddressAllowances:
    """An allowance for each address that was seen lately."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._rates = per_s, burst
        self._by_address: dict[str, Allowance] = {}

    def change(self, per_s: float, burst: float) -> None:
        """Go on by another rate. What an address has spent already stays spent."""
        self._rates = per_s, burst

    def admits(self, address: str, now: float) -> bool:
        """Whether one more is within what the address may do now."""
        allowance = self._by_address.pop(address, None) or Allowance(*self._rates, now)
        if (allowance.per_s, allowance.burst) != self._rates:
            allowance.change(*self._rates, now)
        # Back in as the newest: of too many addresses, those that were not seen for longest are forgotten.
        self._by_address[address] = allowance
        if len(self._by_address) > _MAX_ADDRESSES:
            del self._by_address[next(iter(self._by_address))]
        return allowance.covers(1.0, now)


def address_group(ip: str) -> str:
    """What limits per address count: an IPv4 address, or the /64 network of an IPv6 one, which one host has whole."""
    address = host_address(ip)
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> 64 << 64)) + "/64"
    return str(address)


def is_loopback(ip: str) -> bool:
    """Whether it is this machine."""
    return host_address(ip).is_loopback


def host_address(ip: str) -> IPv4Address | IPv6Address:
    """The address itself: IPv4 that came over IPv6 is IPv4, and the scope of a link-local one does not count."""
    address = ip_address(ip.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
