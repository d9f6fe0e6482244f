"""From what happens on the server to facts.

Owns which call becomes which fact and when, the names of views and publications, and the samples in between. Writes
nothing by itself: facts go to the writer.

An address that connects, plays or publishes again and again is told of so many times a second; the rest is counted.
What is told is told to its end: the decision is made at the beginning of a connection, view or publication, and holds
for everything about it, samples and end included.

When the wall clock is set, everything that goes on is told to end by the old time and to begin anew by the new one: so
no view, publication or connection has an end before its beginning, or hours that never were.
"""

import os
from typing import NamedTuple

from penstock import __version__, facts
from penstock.errors import ProtocolViolation
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.reactor import Reactor
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.publisher import Publisher
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.address_quota import AddressQuota
from penstock.serve.telemetry.facts_writer import FactsWriter
from penstock.serve.telemetry.meter import Meters, StreamTotals
from penstock.serve.telemetry.sampling import SampleRing, sent_bytes_to
from penstock.serve.telemetry.told_sessions import (
    LetIn,
    ToldConnection,
    ToldPublication,
    ToldView,
    play_stopped,
    text,
    view_of,
)

LANDED_FACTS = "landed facts"
"""What the limit is called of which limit_hit tells that landed files were deleted."""
FACTS_PER_ADDRESS = "facts per address"
"""What the limit is called of which limit_hit tells that facts were held back."""
CLOCK_STEPPED = "clock stepped"
"""Why something is told to end that goes on under another name."""
_CLOCK_STEP_US = 500_000
_NOTHING_YET = StreamTotals(0, 0, 0, 0, 0, 0)


class _Hits(NamedTuple):
    hits: int
    detail: str


class FactsObserver(Observer):
    """Tells facts of everything. `open` and `close` are the boot's own."""

    def __init__(
        self,
        writer: FactsWriter,
        meters: Meters,
        reactor: Reactor,
        quota: AddressQuota | None = None,
        *,
        stream_sample_s: float = 1.0,
        viewer_sample_s: float = 5.0,
    ) -> None:
        self._writer = writer
        self._clock = writer.clock
        self._meters = meters
        self._quota = quota or AddressQuota()
        self._connections: dict[str, ToldConnection] = {}
        self._publications: dict[LiveStream, ToldPublication] = {}
        self._let_in: dict[Viewer, LetIn] = {}
        self._views: dict[Viewer, ToldView] = {}
        self._streams_due = SampleRing(reactor, self._sample_stream, stream_sample_s)
        self._views_due = SampleRing(reactor, self._sample_view, viewer_sample_s)
        self._ended_views_bytes: dict[str, int] = {}
        self._hits: dict[str, _Hits] = {}
        self._told_deleted_files = 0
        self._clock_steps = 0

    def open(self) -> None:
        """The server starts."""
        self._writer.emit(
            facts.ServerStarted(__version__, os.getpid(), self._clock.boot_wall_us, self._clock.boot_mono_us)
        )

    def close(self) -> None:
        """The server has stopped: the last fact of this boot."""
        self._tell_counted()
        uptime_us = self._clock.mono_us() - self._clock.boot_mono_us
        dropped = self._writer.dropped_facts
        self._writer.emit(facts.ServerStopped(__version__, uptime_us, self._clock.wall_us(), dropped))

    # Connections.

    def connection_opened(self, connection: MediaConnection) -> None:
        """A socket was accepted."""
        if self._admits(connection):
            began_us = round(connection.opened_at * 1_000_000)
            self._begin_connection(ToldConnection(connection, connection.id, began_us))

    def _begin_connection(self, told: ToldConnection) -> None:
        self._connections[told.connection.id] = told
        self._writer.emit(told.opened())

    def connection_closed(self, connection: MediaConnection, reason: str) -> None:
        """A connection is gone."""
        self._end_connection(connection, reason)
        self._ended_views_bytes.pop(connection.id, None)

    def _end_connection(self, connection: MediaConnection, reason: str) -> None:
        told = self._connections.pop(connection.id, None)
        if told is not None:
            self._writer.emit(told.closed(reason, self._clock.mono_us(), self.sent_bytes_on(connection)))

    def sent_bytes_on(self, connection: MediaConnection) -> int:
        """Everything that was sent on a connection."""
        of_views = sum(play.log_bytes for play in connection.plays.values() if play in self._let_in)
        return connection.queue.sent_bytes + self._ended_views_bytes.get(connection.id, 0) + of_views

    def violation(self, connection: MediaConnection, violation: ProtocolViolation) -> None:
        """A peer broke the protocol."""
        told = self._connections.get(connection.id)
        if told is not None:
            layer, detail = violation.layer, text(violation.detail)
            self._writer.emit(facts.ProtocolViolation(told.conn_id, connection.address, layer, detail))

    def limit_hit(self, limit: str, detail: str) -> None:
        """Somebody was turned away: counted here, told once a second, since a crowd may come."""
        self.turned_away(limit, 1, detail)

    def turned_away(self, limit: str, hits: int, detail: str) -> None:
        """So many were turned away, perhaps before they came to this worker."""
        known = self._hits.get(limit)
        self._hits[limit] = _Hits(known.hits + hits if known else hits, detail)

    # Publications.

    def publish_started(self, publisher: Publisher, live_stream: LiveStream, publishing_type: str) -> None:
        """A publication began."""
        if self._admits(publisher):
            self._begin_publication(publisher, live_stream, publishing_type, _NOTHING_YET)

    def _begin_publication(
        self, publisher: Publisher, live_stream: LiveStream, publishing_type: str, base: StreamTotals
    ) -> None:
        conn_id = self.conn_id_of(publisher)
        publication_id = self._writer.emit(ToldPublication.started(publisher, conn_id, live_stream, publishing_type))
        now_us, meter = self._clock.mono_us(), self._meters.of(live_stream)
        self._publications[live_stream] = ToldPublication(
            publication_id, publisher, conn_id, live_stream, publishing_type, now_us, meter, base
        )
        self._streams_due.add(live_stream, now_us / 1_000_000)

    def publish_stopped(self, publisher: Publisher, live_stream: LiveStream, reason: str) -> None:  # noqa: ARG002
        """A publication ended."""
        self._end_publication(live_stream, reason)

    def stream_closed(self, live_stream: LiveStream) -> None:
        """A stream is over, and with it a publication whose end was our decision."""
        self._end_publication(live_stream, "ended by the server")

    def _end_publication(self, live_stream: LiveStream, reason: str) -> None:
        publication = self._publications.pop(live_stream, None)
        if publication is not None:
            self._streams_due.discard(live_stream)
            self._writer.emit(publication.stopped(reason, self._clock.mono_us()))

    def _sample_stream(self, live_stream: LiveStream, now: float) -> None:
        # One that was added and waits for a turn to be let in has watched nothing yet.
        encodings = live_stream.all_encodings
        since = [
            let_in for each in encodings for viewer in each.viewers if (let_in := self._let_in.get(viewer)) is not None
        ]
        sent_bytes = sum(map(sent_bytes_to, encodings)) - sum(each.sent_bytes for each in since)
        watched_us = len(since) * self._clock.mono_us() - sum(each.began_us for each in since)
        self._writer.emit(self._publications[live_stream].sample(now, sent_bytes, watched_us))

    # Views.

    def play_started(self, viewer: Viewer) -> None:
        """A viewer was let in."""
        self._let_in[viewer] = LetIn(self._clock.mono_us())
        if self._admits(viewer.connection):
            self._begin_view(viewer, waited_us=self._us_since(viewer.started_at))

    def _begin_view(self, viewer: Viewer, waited_us: int) -> None:
        conn_id, since = self.conn_id_of(viewer.connection), self._let_in[viewer]
        view_id = self._writer.emit(ToldView.started(viewer, conn_id, waited_us))
        self._views[viewer] = view_of(view_id, viewer, conn_id, since)
        self._views_due.add(viewer, since.began_us / 1_000_000)

    def first_frame_sent(self, viewer: Viewer) -> None:
        """A viewer was given its place."""
        view = self._views.get(viewer)
        first = None if view is None else view.first_keyframe()
        if first is not None:
            self._writer.emit(first)

    def play_stopped(self, viewer: Viewer, reason: str) -> None:
        """A viewer is gone, or its stream is, or it waited in vain."""
        connection = viewer.connection
        if viewer in self._views:
            self._end_view(viewer, reason)
        # One that waited in vain has no beginning: this is all that is told of it.
        elif viewer not in self._let_in and self._admits(connection):
            self._writer.emit(play_stopped(viewer, self.conn_id_of(connection), None, reason, self._clock.mono_us()))
        if self._let_in.pop(viewer, None) is not None:
            ended_bytes = self._ended_views_bytes.get(connection.id, 0)
            self._ended_views_bytes[connection.id] = ended_bytes + viewer.log_bytes

    def _end_view(self, viewer: Viewer, reason: str) -> None:
        self._views_due.discard(viewer)
        view = self._views.pop(viewer)
        self._writer.emit(play_stopped(viewer, view.conn_id, view, reason, self._clock.mono_us()))

    def _sample_view(self, viewer: Viewer, now: float) -> None:  # noqa: ARG002
        self._writer.emit(self._views[viewer].sample(self._clock.mono_us()))

    # What facts call things, for whoever tells of the same.

    def told_connection(self, connection: MediaConnection) -> ToldConnection | None:
        """An open connection as facts tell it; None: they do not."""
        return self._connections.get(connection.id)

    def publication_id_of(self, live_stream: LiveStream) -> str | None:
        """The name of what is published as a stream now; None: facts do not tell of it."""
        publication = self._publications.get(live_stream)
        return None if publication is None else publication.publication_id

    def view_id_of(self, viewer: Viewer) -> str | None:
        """The name of a view; None: facts do not tell of it."""
        view = self._views.get(viewer)
        return None if view is None else view.view_id

    def let_in(self, viewer: Viewer) -> LetIn | None:
        """Where counting of a viewer begins; None: it was not let in, or is gone."""
        return self._let_in.get(viewer)

    # Once a second.

    def second_passed(self, now: float) -> None:  # noqa: ARG002
        """Go on with the samples, look at the clocks, tell what was counted."""
        self._streams_due.keep_going()
        self._views_due.keep_going()
        self._tell_counted()
        step_us = self._clock.wall_us() - self._clock.now_us()
        if abs(step_us) >= _CLOCK_STEP_US:
            self._follow_clock(step_us)

    def _follow_clock(self, step_us: int) -> None:
        """The wall clock was set: end everything by the old time, and begin it anew by the new one."""
        connections, publications = list(self._connections.values()), list(self._publications.values())
        views = list(self._views.values())
        for view in views:
            self._end_view(view.viewer, CLOCK_STEPPED)
        for publication in publications:
            self._end_publication(publication.live_stream, CLOCK_STEPPED)
        for told in connections:
            self._end_connection(told.connection, CLOCK_STEPPED)
        self._writer.follow_wall_clock()
        self._clock_steps += 1
        self._writer.emit(facts.ClockStepped(self._clock.wall_us(), step_us, offset_us=0))
        now_us = self._clock.mono_us()
        for told in connections:
            connection = told.connection
            received_bytes, sent_bytes = connection.received_bytes, self.sent_bytes_on(connection)
            conn_id = f"{connection.id}~{self._clock_steps}"
            self._begin_connection(ToldConnection(connection, conn_id, now_us, received_bytes, sent_bytes))
        for publication in publications:
            base = publication.meter.totals
            self._begin_publication(publication.publisher, publication.live_stream, publication.publishing_type, base)
        self._let_in = {viewer: LetIn.anew(viewer, now_us) for viewer in self._let_in}
        for view in views:
            self._begin_view(view.viewer, waited_us=0)

    def _tell_counted(self) -> None:
        hits, self._hits = self._hits, {}
        for limit, (count, detail) in hits.items():
            self._writer.emit(facts.LimitHit(limit, count, text(detail)))
        held_back = self._quota.take_held_back()
        if held_back is not None:
            total, addresses, address, most = held_back
            detail = f"{most} beginnings of {address} are not told; {addresses} addresses in all"
            self._writer.emit(facts.LimitHit(FACTS_PER_ADDRESS, total, detail))
        # Told here since the thread that deletes files tells no facts.
        files = self._writer.deleted_files - self._told_deleted_files
        if files:
            self._told_deleted_files += files
            detail = f"{self._writer.deleted_bytes} bytes deleted since the start, the oldest first"
            self._writer.emit(facts.LimitHit(LANDED_FACTS, files, detail))

    def conn_id_of(self, connection: MediaConnection | Publisher) -> str:
        """The name of a connection in facts."""
        told = self._connections.get(connection.id)
        return connection.id if told is None else told.conn_id

    def _admits(self, connection: MediaConnection | Publisher) -> bool:
        return self._quota.admit(connection.address, self._clock.mono_us() / 1_000_000)

    def _us_since(self, monotonic_s: float) -> int:
        return max(0, self._clock.mono_us() - round(monotonic_s * 1_000_000))
