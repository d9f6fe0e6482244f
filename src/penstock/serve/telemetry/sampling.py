"""Samples: whom to look at when, and what can be seen of a viewer.

Owns that ten thousand viewers are never looked at in one go: a ring looks at a few, pauses, and goes on, so that the
loop is held for less than a millisecond at a time. If there are more than it can get round to, each is sampled less
often. Reads figures; what is told of them is the matter of `facts_observer` and `metrics`.
"""

import socket
import struct
from collections import OrderedDict
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from penstock.serve.reactor import Reactor, Timer
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.viewer import Viewer

Item = TypeVar("Item", bound=Hashable)

SLICE_ITEMS = 100
SLICE_PAUSE_S = 0.02

# struct tcp_info of Linux: tcpi_rtt, tcpi_total_retrans, tcpi_bytes_acked and nothing else.
_TCP_INFO = struct.Struct("=68xI28xI16xQ")

_base_bytes_of = attrgetter("sent_base_bytes")
_is_in_step = attrgetter("is_in_step")


class SampleRing(Generic[Item]):
    """Things to be sampled at an interval, each in its turn."""

    def __init__(
        self,
        reactor: Reactor,
        sample: Callable[[Item, float], None],
        interval_s: float,
        slice_items: int = SLICE_ITEMS,
    ) -> None:
        """`slice_items`: how many are looked at in one go, by what a look costs."""
        self._reactor = reactor
        self._sample = sample
        self._interval_s = interval_s
        self._slice_items = slice_items
        self._due_at: OrderedDict[Item, float] = OrderedDict()
        self._timer: Timer | None = None

    def add(self, item: Item, now: float) -> None:
        """Sample it from now on, one interval from now first."""
        self._due_at[item] = now + self._interval_s

    def discard(self, item: Item) -> None:
        """Sample it no more."""
        self._due_at.pop(item, None)

    def keep_going(self) -> None:
        """To be called at least once per interval: a ring that has become empty stops by itself."""
        if self._timer is None:
            self._go_on()

    def _go_on(self) -> None:
        if self._due_at:
            due = max(next(iter(self._due_at.values())), self._reactor.now + SLICE_PAUSE_S)
            self._timer = self._reactor.call_at(due, self._run_slice)

    def _run_slice(self) -> None:
        self._timer = None
        now = self._reactor.now
        try:
            for _ in range(min(self._slice_items, len(self._due_at))):
                item, due = next(iter(self._due_at.items()))
                if due > now:
                    break
                next_due = due + self._interval_s
                self._due_at[item] = next_due if next_due > now else now + self._interval_s
                self._due_at.move_to_end(item)
                self._sample(item, now)
        finally:
            self._go_on()


class TcpFigures(NamedTuple):
    """What TCP knows of a connection."""

    rtt_us: int
    retransmits: int
    acknowledged_bytes: int


def read_tcp_figures(descriptor: int) -> TcpFigures | None:
    """Ask the system about an open socket; None if it does not tell, or if a view has no connection."""
    if descriptor < 0:
        return None
    try:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
    except OSError:
        return None
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return None
    finally:
        # The descriptor stays its owner's.
        connection.detach()
    return TcpFigures(*_TCP_INFO.unpack(info)) if len(info) == _TCP_INFO.size else None


class Lag(NamedTuple):
    """How far a viewer is behind the live edge."""

    lag_bytes: int
    lag_ms: int | None


def lag_of(viewer: Viewer) -> Lag:
    """Where a viewer is; without a place in the stream it lags by nothing that can be named."""
    live_stream = viewer.stream
    if live_stream is None or viewer.cursor is None:
        return Lag(0, None)
    log, position = live_stream.log, viewer.position
    lag_bytes = log.head - position
    if lag_bytes <= 0:
        return Lag(0, 0)
    segment = log.segment_at(position)
    if segment is None:
        return Lag(lag_bytes, None)
    return Lag(lag_bytes, max(0, log.last_timestamp_ms - segment.entry_at(position).timestamp_ms))


def sent_bytes_to(live_stream: LiveStream) -> int:
    """What those who watch a stream now were sent: the sum of their `sent_bytes`, in a third of the time."""
    viewers = live_stream.viewers
    in_step = sum(map(_is_in_step, viewers))
    sent_bytes: int = sum(map(_base_bytes_of, viewers)) + in_step * live_stream.log.head
    if in_step < len(viewers):
        sent_bytes += sum(
            viewer.cursor.position for viewer in viewers if not viewer.is_in_step and viewer.cursor is not None
        )
    return sent_bytes
