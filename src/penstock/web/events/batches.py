"""What clients are sent, encoded once for all of them that ask for the same from the same place on.

Owns both encodings, and the ones made last. A client is no more than a number in the log and a filter: nothing is
queued for it, and one that falls behind reads on in the log, piece by piece. Knows no sockets and no clock.
"""

from typing import Final, NamedTuple

import orjson

from penstock.web.events.event_filter import EventFilter
from penstock.web.events.event_log import Event, EventLog

MAX_EVENTS: Final = 500
"""Of one piece: what a client that takes nothing makes us hold."""
MAX_BYTES: Final = 256 * 1024
_MAX_KEPT: Final = 256
RESET: Final = "reset"
KEEP_ALIVE: Final = "keep_alive"


class Batch(NamedTuple):
    """What comes after some event."""

    upto: int
    """The number of the last event that this has, or leaves out since the filter does."""
    sse: bytes
    """Empty: nothing that was asked for."""
    events: tuple[Event, ...]
    has_more: bool
    """Whether there was more than goes into one piece."""


class Batches:
    """The log as it is sent."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self._made: dict[tuple[EventFilter, int], Batch | None] = {}
        self._made_at = 0
        """For which newest event they hold."""

    def after(self, number: int, wanted: EventFilter) -> Batch | None:
        """The next piece after an event. None: some of what came after it is not kept any more."""
        if self._made_at != self.log.newest or len(self._made) > _MAX_KEPT:
            self._made_at = self.log.newest
            self._made.clear()
        key = (wanted, number)
        if key not in self._made:
            self._made[key] = self._make(number, wanted)
        return self._made[key]

    def _make(self, number: int, wanted: EventFilter) -> Batch | None:
        events = self.log.after(number, with_samples=wanted.samples)
        if events is None:
            return None
        chosen: list[Event] = []
        size_bytes = 0
        for event in events:
            if wanted.has(event):
                if len(chosen) == MAX_EVENTS or (chosen and size_bytes + len(event.data) > MAX_BYTES):
                    return self._batch(chosen[-1].number, chosen, has_more=True)
                chosen.append(event)
                size_bytes += len(event.data)
        return self._batch(self.log.newest, chosen, has_more=False)

    def _batch(self, upto: int, events: list[Event], *, has_more: bool) -> Batch:
        return Batch(upto, b"".join(map(self._sse, events)), tuple(events), has_more)

    def _sse(self, event: Event) -> bytes:
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (
            self.log.id_of(event.number).encode(),
            event.kind.encode(),
            event.data,
        )

    def json(self, event: Event) -> str:
        """An event as a message of a WebSocket."""
        head = orjson.dumps({"id": self.log.id_of(event.number), "event": event.kind})
        return (b'%b,"data":%b}' % (head[:-1], event.data)).decode()

    def sse_reset(self) -> bytes:
        """There is a gap: what the client knows is to be asked for anew, and events go on from here."""
        return b"id: %b\nevent: %b\ndata: {}\n\n" % (self._newest_id(), RESET.encode())

    def sse_place(self, retry_ms: int | None = None) -> bytes:
        """Where in the log the client is, without an event: browsers keep the id and tell their page nothing."""
        retry = b"" if retry_ms is None else b"retry: %d\n" % retry_ms
        return b"%bid: %b\n\n" % (retry, self._newest_id())

    def json_reset(self) -> str:
        """The same as messages of a WebSocket."""
        return self._json_of(RESET)

    def json_place(self) -> str:
        return self._json_of(KEEP_ALIVE)

    def _json_of(self, kind: str) -> str:
        return orjson.dumps({"id": self._newest_id().decode(), "event": kind, "data": {}}).decode()

    def _newest_id(self) -> bytes:
        return self.log.id_of(self.log.newest).encode()
