"""What clients over HTTP may cost: how many there are, how long each may take, and how many come in a second.

Owns the limits, and which exchanges are open: uvicorn bounds none of that. Each connection is one exchange. How it is
served, and what it is about, is known elsewhere. An application whose answer has no end of its own (events, files) asks
for it by `stay_open`: the answer may then take as long as the client takes what it is sent.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.web.asgi import App, Event, Receive, Scope, Send
from penstock.web.clients import Client

_LOOK_S: Final = 0.1
_STAY_OPEN: Final = "penstock.stay_open"


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What clients may cost."""

    max_connections: int = 64
    max_waiting: int = 256
    """Those that were handed over and not taken up yet."""
    max_request_bytes: int = 16 * 1024
    request_s: float = 10.0
    """For the head of a request to come whole."""
    answer_s: float = 10.0
    """For it to be answered, and once more for the answer to be taken."""
    max_new_per_s: float = 200.0
    burst: float = 100.0
    max_long_lived: int = 2000
    """Answers without an end of their own, counted apart from `max_connections`."""
    stalled_s: float = 60.0
    """How long such a client may take nothing of what it is sent."""
    max_unsent_bytes: int = 1024 * 1024
    """What may wait for such a client to take it. Its answer waits at 64 kB; what it pings for does not."""


def stay_open(scope: Scope) -> bool:
    """Have the answer to this request, or this WebSocket, take its time. False: there are too many of them."""
    ask: Callable[[], bool] | None = scope.get("state", {}).get(_STAY_OPEN)
    return ask is None or ask()


class Exchange:
    """One request and its answer."""

    __slots__ = ("client", "due", "has_asked", "is_long_lived")

    def __init__(self, client: Client, due: float) -> None:
        self.client = client
        self.due = due
        """When it is given up."""
        self.has_asked = False
        self.is_long_lived = False


class Connection(Protocol):
    """What an exchange goes over."""

    @property
    def is_over(self) -> bool:
        """Closed, with everything sent."""

    @property
    def unsent_bytes(self) -> int:
        """What the client has not taken."""

    def abort(self) -> None:
        """End it at once."""


class Pace:
    """Gives out turns at a bounded rate."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._period_s = 1 / per_s
        self._burst_s = burst / per_s
        self._next_at = 0.0

    def wait_s(self, now: float) -> float:
        """Take the next turn: how long it is until then."""
        self._next_at = max(self._next_at, now - self._burst_s) + self._period_s
        return max(0.0, self._next_at - now)

    def has_turn(self, now: float) -> bool:
        """Take a turn, if there is one at once."""
        is_free = self._next_at + self._period_s <= now
        if is_free:
            self.wait_s(now)
        return is_free


class Exchanges:
    """All that are open."""

    def __init__(self, clock: Callable[[], float], limits: HttpLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._open: dict[Exchange, Connection] = {}
        """The oldest first."""
        self._long_lived = 0

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits for an answer. Answers without an end of their own are not waited for."""
        self.look()
        return len(self._open) == self._long_lived

    def expect(self, client: Client) -> Exchange:
        """One who has a request to make, from now on."""
        return Exchange(client, self._clock() + self._limits.request_s)

    def add(self, exchange: Exchange, connection: Connection) -> None:
        """It goes over this connection."""
        self._open[exchange] = connection

    def asked(self, exchange: Exchange) -> None:
        """Its request has come."""
        exchange.has_asked = True
        exchange.due = self._clock() + self._limits.answer_s

    def answered(self, exchange: Exchange) -> None:
        """Its answer is on the way."""
        exchange.due = self._clock() + self._limits.answer_s

    def stay_open(self, exchange: Exchange) -> bool:
        """Its answer takes its time from now on, if there is room for one more of those."""
        if not exchange.is_long_lived:
            if self._long_lived >= self._limits.max_long_lived:
                return False
            exchange.is_long_lived = True
            self._long_lived += 1
            self.progressed(exchange)
        return True

    def progressed(self, exchange: Exchange) -> None:
        """The client of a long answer has taken some of it."""
        exchange.due = self._clock() + self._limits.stalled_s

    async def serve(self, exchange: Exchange, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Have its request answered."""

        async def send_on(event: Event) -> None:
            await send(event)  # waits while the client takes nothing
            if exchange.is_long_lived:
                self.progressed(exchange)

        self.asked(exchange)
        scope.setdefault("state", {})[_STAY_OPEN] = lambda: self.stay_open(exchange)
        await app(scope, receive, send_on)
        self.answered(exchange)

    def make_room(self) -> bool:
        """At the limit whoever has kept us waiting longest goes, so that idle clients cannot lock others out."""
        if self._is_room():
            return True
        self.look()
        if self._is_room():
            return True
        longest = next((exchange for exchange in self._open if not exchange.has_asked), None)
        if longest is None:
            return False
        self._forget(longest).abort()
        return True

    def _is_room(self) -> bool:
        return len(self._open) - self._long_lived < self._limits.max_connections

    def _forget(self, exchange: Exchange) -> Connection:
        self._long_lived -= exchange.is_long_lived
        return self._open.pop(exchange)

    async def watch(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look()

    def look(self) -> None:
        """Forget those that are gone, and end those that are late."""
        now = self._clock()
        for exchange, connection in list(self._open.items()):
            if connection.is_over:
                self._forget(exchange)
            elif now >= exchange.due or self._is_flooded(exchange, connection):
                self._forget(exchange).abort()

    def _is_flooded(self, exchange: Exchange, connection: Connection) -> bool:
        return exchange.is_long_lived and connection.unsent_bytes > self._limits.max_unsent_bytes

    def abort_all(self) -> None:
        """The end of everything."""
        for connection in self._open.values():
            connection.abort()
