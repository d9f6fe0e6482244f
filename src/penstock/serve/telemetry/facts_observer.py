"""From what happens on the server to facts.

Owns which call becomes which fact, the names of views and publications, and the samples in between. Text that peers
chose is made printable and cut, so that one long name does not swell every sample. Writes nothing by itself: facts go
to the writer.

An address that connects, plays or publishes again and again is told of so many times a second; the rest is counted.
What is told is told to its end: the decision is made at the beginning of a connection, view or publication, and holds
for everything about it, samples and end included.
"""

import os
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl

from penstock import __version__, facts
from penstock.amf import printable
from penstock.errors import ProtocolViolation
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Reactor
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.address_quota import AddressQuota
from penstock.serve.telemetry.facts_writer import FactsWriter
from penstock.serve.telemetry.meter import Meters, StreamMeter
from penstock.serve.telemetry.sampling import SampleRing, lag_of, log_bytes_of, read_tcp_figures, sent_bytes_to

MAX_TEXT_CHARACTERS = 1024
LANDED_FACTS = "landed facts"
"""What the limit is called of which limit_hit tells that landed files were deleted."""
FACTS_PER_ADDRESS = "facts per address"
"""What the limit is called of which limit_hit tells that facts were held back."""
_CLOCK_STEP_US = 500_000


@dataclass(frozen=True, slots=True, eq=False)
class _Publication:
    publication_id: str
    conn_id: str
    app: str
    stream: str
    started_us: int
    live_stream: LiveStream
    meter: StreamMeter


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    view_id: str
    app: str
    stream: str
    started_us: int


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
        self._told_connections: set[str] = set()
        self._publications: dict[LiveStream, _Publication] = {}
        self._let_in_us: dict[Viewer, int] = {}
        """Of everybody who watches, told of or not: a stream's sample has the sums of all."""
        self._views: dict[Viewer, _View] = {}
        self._streams_due = SampleRing(reactor, self._sample_stream, stream_sample_s)
        self._views_due = SampleRing(reactor, self._sample_view, viewer_sample_s)
        self._ended_views_bytes: dict[str, int] = {}
        self._hits: dict[str, _Hits] = {}
        self._clock_offset_us = 0
        self._told_deleted_files = 0

    def open(self) -> None:
        """The server starts."""
        self._writer.emit(
            facts.ServerStarted(__version__, os.getpid(), self._clock.boot_wall_us, self._clock.boot_mono_us)
        )

    def close(self) -> None:
        """The server has stopped: the last fact of this boot."""
        self._tell_hits()
        self._tell_held_back()
        self._tell_deleted()
        uptime_us = self._clock.mono_us() - self._clock.boot_mono_us
        dropped = self._writer.dropped_facts
        self._writer.emit(facts.ServerStopped(__version__, uptime_us, self._clock.wall_us(), dropped))

    # Connections.

    def connection_opened(self, connection: RtmpConnection) -> None:
        """A socket was accepted."""
        if not self._admits(connection):
            return
        self._told_connections.add(connection.id)
        self._writer.emit(facts.ConnectionOpened(connection.id, connection.address, _protocol(connection)))

    def connection_closed(self, connection: RtmpConnection, reason: str) -> None:
        """A connection is gone."""
        ended_views_bytes = self._ended_views_bytes.pop(connection.id, 0)
        if connection.id not in self._told_connections:
            return
        self._told_connections.remove(connection.id)
        self._writer.emit(
            facts.ConnectionClosed(
                conn_id=connection.id,
                peer_addr=connection.address,
                protocol=_protocol(connection),
                reason=_text(reason),
                app=_text(connection.app) or None,
                client=_text(connection.client) or None,
                duration_us=self._us_since(connection.opened_at),
                received_bytes=connection.session.received_bytes,
                sent_bytes=connection.sent_private_bytes + ended_views_bytes,
            )
        )

    def violation(self, connection: RtmpConnection, violation: ProtocolViolation) -> None:
        """A peer broke the protocol."""
        if connection.id in self._told_connections:
            self._writer.emit(
                facts.ProtocolViolation(connection.id, connection.address, violation.layer, _text(violation.detail)),
            )

    def limit_hit(self, limit: str, detail: str) -> None:
        """Somebody was turned away: counted here, told once a second, since a crowd may come."""
        known = self._hits.get(limit)
        self._hits[limit] = _Hits(known.hits + 1 if known else 1, detail)

    # Publications.

    def publish_started(self, connection: RtmpConnection, live_stream: LiveStream, publishing_type: str) -> None:
        """A publication began."""
        if not self._admits(connection):
            return
        app, stream = _names(live_stream.app_name, live_stream.key)
        publication_id = self._writer.emit(
            facts.PublishStarted(
                conn_id=connection.id,
                peer_addr=connection.address,
                protocol=_protocol(connection),
                client=_text(connection.client) or None,
                app=app,
                stream=stream,
                publishing_type=_text(publishing_type),
            )
        )
        meter = self._meters.of(live_stream)
        publication = _Publication(
            publication_id, connection.id, app, stream, self._clock.mono_us(), live_stream, meter
        )
        self._publications[live_stream] = publication
        self._streams_due.add(live_stream, publication.started_us / 1_000_000)

    def publish_stopped(self, connection: RtmpConnection, live_stream: LiveStream, reason: str) -> None:  # noqa: ARG002
        """A publication ended."""
        self._end_publication(live_stream, reason)

    def stream_closed(self, live_stream: LiveStream) -> None:
        """A stream is over, and with it a publication whose end was our decision."""
        self._end_publication(live_stream, "ended by the server")

    def _end_publication(self, live_stream: LiveStream, reason: str) -> None:
        publication = self._publications.pop(live_stream, None)
        if publication is None:
            return
        self._streams_due.discard(live_stream)
        self._writer.emit(
            facts.PublishStopped(
                publication.publication_id,
                publication.conn_id,
                publication.app,
                publication.stream,
                _text(reason),
                self._clock.mono_us() - publication.started_us,
                *publication.meter.totals,
            )
        )

    def _sample_stream(self, live_stream: LiveStream, now: float) -> None:
        publication = self._publications[live_stream]
        figures = publication.meter.sample(now)
        viewers = len(live_stream.viewers)
        watched_us = viewers * self._clock.mono_us() - sum(self._let_in_us[viewer] for viewer in live_stream.viewers)
        self._writer.emit(
            facts.StreamSample(
                publication.publication_id,
                publication.app,
                publication.stream,
                viewers,
                round(figures.interval_s * 1_000_000),
                round(figures.bitrate_bps),
                round(figures.fps, 3),
                figures.timestamp_jumps,
                None if figures.av_skew_ms is None else round(figures.av_skew_ms, 1),
                figures.keyframe_interval_ms,
                figures.media_ms,
                figures.wall_ms,
                *publication.meter.totals,
                viewers_sent_bytes=sent_bytes_to(live_stream),
                viewers_watched_us=watched_us,
            )
        )

    # Views.

    def play_started(self, viewer: Viewer) -> None:
        """A viewer was let in."""
        connection = viewer.connection
        now_us = self._let_in_us[viewer] = self._clock.mono_us()
        if not self._admits(connection):
            return
        app, stream = _names(connection.app, viewer.key)
        view_id = self._writer.emit(
            facts.PlayStarted(
                conn_id=connection.id,
                peer_addr=connection.address,
                protocol=_protocol(connection),
                client=_text(connection.client) or None,
                app=app,
                stream=stream,
                waited_us=self._us_since(viewer.started_at),
                viewer=_own_name(viewer),
                auth_subject=None,
            )
        )
        self._views[viewer] = _View(view_id, app, stream, now_us)
        self._views_due.add(viewer, now_us / 1_000_000)

    def first_frame_sent(self, viewer: Viewer) -> None:
        """A viewer was given its place."""
        view = self._views.get(viewer)
        startup_us = _startup_us(viewer)
        if view is not None and startup_us is not None:
            self._writer.emit(
                facts.PlayFirstKeyframe(view.view_id, viewer.connection.id, view.app, view.stream, startup_us)
            )

    def play_stopped(self, viewer: Viewer, reason: str) -> None:
        """A viewer is gone, or its stream is, or it waited in vain."""
        connection = viewer.connection
        view = self._views.pop(viewer, None)
        was_let_in = self._let_in_us.pop(viewer, None) is not None
        if was_let_in:
            ended_bytes = self._ended_views_bytes.get(connection.id, 0)
            self._ended_views_bytes[connection.id] = ended_bytes + log_bytes_of(viewer)
        if view is not None:
            self._views_due.discard(viewer)
        # One that waited in vain has no beginning: this is all that is told of it.
        elif was_let_in or not self._admits(connection):
            return
        app, stream = _names(connection.app, viewer.key)
        self._writer.emit(
            facts.PlayStopped(
                view_id=view.view_id if view else None,
                conn_id=connection.id,
                app=app,
                stream=stream,
                protocol=_protocol(connection),
                reason=_text(reason),
                watched_us=self._clock.mono_us() - view.started_us if view else 0,
                startup_us=_startup_us(viewer),
                sent_bytes=viewer.sent_bytes,
                skips=viewer.skips,
                skipped_bytes=viewer.skipped_bytes,
                peer_addr=connection.address,
                client=_text(connection.client) or None,
                viewer=_own_name(viewer),
                auth_subject=None,
            )
        )

    def _sample_view(self, viewer: Viewer, now: float) -> None:  # noqa: ARG002
        view, connection = self._views[viewer], viewer.connection
        tcp = read_tcp_figures(viewer.descriptor)
        lag_bytes, lag_ms = lag_of(viewer)
        self._writer.emit(
            facts.ViewerSample(
                view.view_id,
                connection.id,
                view.app,
                view.stream,
                self._clock.mono_us() - view.started_us,
                viewer.sent_bytes,
                tcp.acknowledged_bytes if tcp else None,
                lag_bytes,
                lag_ms,
                viewer.skips,
                viewer.skipped_bytes,
                connection.round_trip_ms,
                tcp.rtt_us if tcp else None,
                tcp.retransmits if tcp else None,
            )
        )

    # Once a second.

    def second_passed(self, now: float) -> None:  # noqa: ARG002
        """Go on with the samples, look at the clocks, tell what was counted."""
        self._streams_due.keep_going()
        self._views_due.keep_going()
        self._tell_hits()
        self._tell_held_back()
        self._tell_deleted()
        wall_us = self._clock.wall_us()
        offset_us = wall_us - self._clock.mono_us() - self._clock.offset_us
        step_us = offset_us - self._clock_offset_us
        if abs(step_us) >= _CLOCK_STEP_US:
            self._clock_offset_us = offset_us
            self._writer.emit(facts.ClockStepped(wall_us, step_us, offset_us))

    def _tell_hits(self) -> None:
        hits, self._hits = self._hits, {}
        for limit, (count, detail) in hits.items():
            self._writer.emit(facts.LimitHit(limit, count, _text(detail)))

    def _tell_held_back(self) -> None:
        held_back = self._quota.take_held_back()
        if held_back is not None:
            total, addresses, address, most = held_back
            detail = f"{most} beginnings of {address} are not told; {addresses} addresses in all"
            self._writer.emit(facts.LimitHit(FACTS_PER_ADDRESS, total, detail))

    def _tell_deleted(self) -> None:
        # Told here since the thread that deletes files tells no facts.
        files = self._writer.deleted_files - self._told_deleted_files
        if files:
            self._told_deleted_files += files
            detail = f"{self._writer.deleted_bytes} bytes deleted since the start, the oldest first"
            self._writer.emit(facts.LimitHit(LANDED_FACTS, files, detail))

    def _admits(self, connection: RtmpConnection) -> bool:
        return self._quota.admit(connection.address, self._clock.mono_us() / 1_000_000)

    def _us_since(self, monotonic_s: float) -> int:
        return max(0, self._clock.mono_us() - round(monotonic_s * 1_000_000))


def _startup_us(viewer: Viewer) -> int | None:
    if viewer.first_frame_at is None:
        return None
    return round((viewer.first_frame_at - viewer.started_at) * 1_000_000)


def _protocol(connection: RtmpConnection) -> str:
    return "rtmps" if connection.is_encrypted else "rtmp"


def _own_name(viewer: Viewer) -> str | None:
    """What the viewer calls itself in a query, that of the stream first."""
    for query in (viewer.query, viewer.connection.app_query):
        for name, value in parse_qsl(query or ""):
            if name == "viewer":
                return _text(value)
    return None


def _names(app: str, key: str) -> tuple[str, str]:
    """App and stream of a key; either may hold slashes."""
    return _text(app), _text(key[len(app) + 1 :])


def _text(text: str) -> str:
    return printable(text if len(text) <= MAX_TEXT_CHARACTERS else text[: MAX_TEXT_CHARACTERS - 1] + "…")
