"""The entrance: who is let in, and which worker gets whom. One for all workers of a server.

Owns the limits on connections in all, from one address and from one address per second, exact over all workers, and the
balance between workers: each connection goes to the one with fewest. Knows no sockets and no clock.

Connections over HTTP are numbered, balanced and bounded like others, but counted apart from them, as figures and health
have to be had from a server that is full. They count while a worker holds them: what is not for media is with web a
moment after it came, and web gives up its idlest client for a new one. Browsers open as many as they like in a second,
so there is no bound on that.
"""

import itertools
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address

from penstock.control.allowance import AddressAllowances, address_group, host_address, is_loopback


@dataclass(frozen=True, slots=True)
class EntranceLimits:
    """What the operator allows."""

    max_connections: int
    max_connections_per_ip: int
    max_new_connections_per_ip_per_s: int
    exempts_loopback: bool
    behind_proxies: frozenset[str] = frozenset()
    """Listeners whose connections count against the addresses that their proxies will give."""
    http_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Whose connections over HTTP are those of many others."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Somebody was let in."""

    number: int
    worker: int
    address: str
    """With its port."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Somebody was turned away."""

    limit: str
    detail: str


@dataclass(slots=True)
class _Guest:
    worker: int
    group: str | None
    """Whom it counts against in limits per address; None: they do not hold for it."""
    is_http: bool


class Entrance:
    """Everybody who was let in and is not gone."""

    def __init__(self, limits: EntranceLimits) -> None:
        self._limits = limits
        self._newcomers = AddressAllowances(*_rates_of(limits))
        self._guests: dict[int, _Guest] = {}
        self._numbers = itertools.count(1)
        self._per_worker: dict[int, int] = {}
        self._per_address: Counter[str] = Counter()
        self._http_per_address: Counter[str] = Counter()
        self._http = 0
        self.turned_away: Counter[str] = Counter()
        """By limit."""

    @property
    def connections(self) -> int:
        """Those that were let in and are not gone, HTTP aside."""
        return len(self._guests) - self._http

    def connections_of(self, worker: int) -> int:
        """Those that it was given and has not told to be gone, HTTP included."""
        return self._per_worker.get(worker, 0)

    @property
    def ready_workers(self) -> Collection[int]:
        return self._per_worker.keys()

    def apply(self, limits: EntranceLimits) -> None:
        """Other limits, for those who come from now on."""
        self._newcomers.change(*_rates_of(limits))
        self._limits = limits

    def worker_ready(self, worker: int) -> None:
        """It can be given connections."""
        self._per_worker.setdefault(worker, 0)

    def worker_lost(self, worker: int) -> None:
        """All its connections are gone with it."""
        for number in [number for number, guest in self._guests.items() if guest.worker == worker]:
            self.left(number)
        self._per_worker.pop(worker, None)

    def admit(
        self, listener: str, ip: str, port: int, now: float, congested: Collection[int] = ()
    ) -> Admission | Refusal:
        """Decide about one who has come. Workers that are congested get nobody while others are not."""
        group = None if self._limits.exempts_loopback and is_loopback(ip) else address_group(ip)
        is_http = listener.startswith("http")
        if (is_http and self._is_http_proxy(ip)) or listener in self._limits.behind_proxies:
            group = None
        refusal = self._refusal(group, now, is_http=is_http)
        if refusal is None and not self._per_worker:
            refusal = Refusal("workers", "none is ready")
        if refusal is not None:
            self.turned_away[refusal.limit] += 1
            return refusal
        worker = self._least_busy(congested)
        number = next(self._numbers)
        self._guests[number] = _Guest(worker, group, is_http)
        self._per_worker[worker] += 1
        self._http += is_http
        if group is not None:
            self._counted(is_http=is_http)[group] += 1
        return Admission(number, worker, f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}")

    def left(self, number: int) -> None:
        """One is gone. Told twice, or of one whose worker is lost, it is nothing."""
        guest = self._guests.pop(number, None)
        if guest is None:
            return
        self._http -= guest.is_http
        if guest.worker in self._per_worker:
            self._per_worker[guest.worker] -= 1
        self._release(guest)

    def from_proxy(self, number: int, address: str, now: float) -> Refusal | None:
        """Count one against the address that its proxy gave. Who is refused is still counted until it has left."""
        guest = self._guests.get(number)
        ip = _ip_of(address)
        if guest is None or guest.is_http or ip is None:
            return None
        self._release(guest)
        group = None if self._limits.exempts_loopback and is_loopback(ip) else address_group(ip)
        refusal = self._refusal_of_address(group) or self._refusal_of_newcomer(group, now)
        if refusal is not None:
            self.turned_away[refusal.limit] += 1
            return refusal
        guest.group = group
        if group is not None:
            self._per_address[group] += 1
        return None

    def _least_busy(self, congested: Collection[int]) -> int:
        free = [worker for worker in self._per_worker if worker not in congested]
        return min(free or self._per_worker, key=lambda worker: (self._per_worker[worker], worker))

    def _refusal(self, group: str | None, now: float, *, is_http: bool) -> Refusal | None:
        limit = self._limits.max_connections
        if is_http:
            if self._http >= limit:
                return Refusal("connections over HTTP", f"{limit} are open")
            return self._refusal_of_address(group, is_http=True)
        if self.connections >= limit:
            return Refusal("connections", f"{limit} are open")
        return self._refusal_of_address(group) or self._refusal_of_newcomer(group, now)

    def _refusal_of_address(self, group: str | None, *, is_http: bool = False) -> Refusal | None:
        limit = self._limits.max_connections_per_ip
        if group is None or self._counted(is_http=is_http)[group] < limit:
            return None
        return Refusal("connections per address", f"{group} has {limit}{' over HTTP' if is_http else ''}")

    def _refusal_of_newcomer(self, group: str | None, now: float) -> Refusal | None:
        if group is None or self._newcomers.admits(group, now):
            return None
        return Refusal("new connections per address", f"{group} opens them too fast")

    def _counted(self, *, is_http: bool) -> Counter[str]:
        return self._http_per_address if is_http else self._per_address

    def _is_http_proxy(self, ip: str) -> bool:
        address = host_address(ip)
        return any(address in network for network in self._limits.http_proxies)

    def _release(self, guest: _Guest) -> None:
        if guest.group is None:
            return
        counted = self._counted(is_http=guest.is_http)
        counted[guest.group] -= 1
        if not counted[guest.group]:
            del counted[guest.group]
        guest.group = None


def _rates_of(limits: EntranceLimits) -> tuple[int, int]:
    per_s = limits.max_new_connections_per_ip_per_s
    # As many at once as one address may have in all, so that a crowd behind one router gets in.
    return per_s, max(limits.max_connections_per_ip, per_s)


def _ip_of(address: str) -> str | None:
    """The host of an address with a port, or None for what is none: a proxy may say that it does not know."""
    ip = address.rpartition(":")[0].strip("[]") if not address.endswith("]") else address.strip("[]")
    try:
        ip_address(ip.partition("%")[0])
    except ValueError:
        return None
    return ip
