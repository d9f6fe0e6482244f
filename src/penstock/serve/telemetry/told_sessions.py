"""Connections, publications and views as facts tell them: the fields of their beginnings, samples and ends.

Owns where counting begins. Amounts of a session are counted from when it was told to begin, which is later than its
real beginning if a clock was set meanwhile: then it was told to end, and to begin anew. Text that peers chose is made
printable and cut, so that one long name does not swell every sample.
"""

from dataclasses import dataclass

from penstock import facts
from penstock.amf import printable
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.publisher import Publisher
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.meter import StreamMeter, StreamTotals
from penstock.serve.telemetry.sampling import lag_of, read_tcp_figures

MAX_TEXT_CHARACTERS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class ToldConnection:
    """A connection, counted from some moment on."""

    connection: MediaConnection
    conn_id: str
    began_us: int
    received_bytes: int = 0
    sent_bytes: int = 0
    """What had come and gone by then."""

    def opened(self) -> facts.ConnectionOpened:
        """Its beginning."""
        return facts.ConnectionOpened(self.conn_id, self.connection.address, self.connection.protocol)

    def closed(self, reason: str, now_us: int, sent_bytes: int) -> facts.ConnectionClosed:
        """Its end, with everything that was sent on it."""
        connection = self.connection
        return facts.ConnectionClosed(
            conn_id=self.conn_id,
            peer_addr=connection.address,
            protocol=connection.protocol,
            reason=text(reason),
            app=text(connection.app) or None,
            client=text(connection.client) or None,
            duration_us=max(0, now_us - self.began_us),
            received_bytes=connection.received_bytes - self.received_bytes,
            sent_bytes=sent_bytes - self.sent_bytes,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ToldPublication:
    """A publication, counted from some moment on. Its name is that of the fact that told its beginning."""

    publication_id: str
    publisher: Publisher
    conn_id: str
    live_stream: LiveStream
    publishing_type: str
    began_us: int
    meter: StreamMeter
    base: StreamTotals

    @staticmethod
    def started(
        publisher: Publisher, conn_id: str, live_stream: LiveStream, publishing_type: str
    ) -> facts.PublishStarted:
        """Its beginning."""
        app, stream = names_of(live_stream.app_name, live_stream.key)
        return facts.PublishStarted(
            conn_id=conn_id,
            peer_addr=publisher.address,
            protocol=publisher.protocol,
            client=text(publisher.client) or None,
            app=app,
            stream=stream,
            publishing_type=text(publishing_type),
            dimensions=live_stream.dimensions,
            auth_subject=subject_text(live_stream.auth_subject),
            pulled_from=None if publisher.pulled_from is None else text(publisher.pulled_from),
        )

    def sample(self, now: float, viewers_sent_bytes: int, viewers_watched_us: int) -> facts.StreamSample:
        """How it does. Begins a new interval."""
        figures = self.meter.sample(now)
        return facts.StreamSample(
            self.publication_id,
            *names_of(self.live_stream.app_name, self.live_stream.key),
            self.live_stream.all_viewers,
            round(figures.interval_s * 1_000_000),
            round(figures.bitrate_bps),
            round(figures.fps, 3),
            figures.timestamp_jumps,
            None if figures.av_skew_ms is None else round(figures.av_skew_ms, 1),
            figures.keyframe_interval_ms,
            figures.media_ms,
            figures.wall_ms,
            *self._totals,
            viewers_sent_bytes,
            viewers_watched_us,
        )

    def stopped(self, reason: str, now_us: int) -> facts.PublishStopped:
        """Its end."""
        return facts.PublishStopped(
            self.publication_id,
            self.conn_id,
            *names_of(self.live_stream.app_name, self.live_stream.key),
            text(reason),
            now_us - self.began_us,
            *self._totals,
        )

    @property
    def _totals(self) -> StreamTotals:
        return StreamTotals(*(total - base for total, base in zip(self.meter.totals, self.base, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class LetIn:
    """Where counting of a viewer that was let in begins, told of or not: a stream's sample has the sums of all."""

    began_us: int
    sent_bytes: int = 0
    skips: int = 0
    skipped_bytes: int = 0
    """What it had been sent and had lost by then."""

    @classmethod
    def anew(cls, viewer: Viewer, now_us: int) -> "LetIn":
        """Of one that watches already."""
        return cls(now_us, viewer.sent_bytes, viewer.skips, viewer.skipped_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class ToldView:
    """A view, named by the fact that told its beginning."""

    view_id: str
    viewer: Viewer
    conn_id: str
    app: str
    stream: str
    since: LetIn

    @staticmethod
    def started(viewer: Viewer, conn_id: str, waited_us: int) -> facts.PlayStarted:
        """Its beginning."""
        connection = viewer.connection
        app, stream = names_of(connection.app, viewer.key)
        return facts.PlayStarted(
            conn_id=conn_id,
            peer_addr=connection.address,
            protocol=connection.protocol,
            client=text(connection.client) or None,
            app=app,
            stream=stream,
            waited_us=waited_us,
            viewer=None if viewer.own_name is None else text(viewer.own_name),
            auth_subject=subject_text(viewer.auth_subject),
            dimensions=viewer.dimensions,
        )

    def first_keyframe(self) -> facts.PlayFirstKeyframe | None:
        """Its first picture; None: there was none yet."""
        startup_us = _startup_us(self.viewer)
        if startup_us is None:
            return None
        return facts.PlayFirstKeyframe(self.view_id, self.conn_id, self.app, self.stream, startup_us)

    def sample(self, now_us: int) -> facts.ViewerSample:
        """How it does."""
        viewer, since = self.viewer, self.since
        tcp = read_tcp_figures(viewer.descriptor)
        lag_bytes, lag_ms = lag_of(viewer)
        return facts.ViewerSample(
            self.view_id,
            self.conn_id,
            self.app,
            self.stream,
            now_us - since.began_us,
            viewer.sent_bytes - since.sent_bytes,
            tcp.acknowledged_bytes if tcp else None,
            lag_bytes,
            lag_ms,
            viewer.skips - since.skips,
            viewer.skipped_bytes - since.skipped_bytes,
            viewer.connection.round_trip_ms,
            tcp.rtt_us if tcp else None,
            tcp.retransmits if tcp else None,
        )


def play_stopped(viewer: Viewer, conn_id: str, view: ToldView | None, reason: str, now_us: int) -> facts.PlayStopped:
    """The end of a view, or of a play that waited in vain and has none."""
    connection = viewer.connection
    since = view.since if view else LetIn(now_us)
    app, stream = names_of(connection.app, viewer.key)
    return facts.PlayStopped(
        view_id=view.view_id if view else None,
        conn_id=conn_id,
        app=app,
        stream=stream,
        protocol=connection.protocol,
        reason=text(reason),
        watched_us=now_us - since.began_us,
        startup_us=_startup_us(viewer),
        sent_bytes=viewer.sent_bytes - since.sent_bytes,
        skips=viewer.skips - since.skips,
        skipped_bytes=viewer.skipped_bytes - since.skipped_bytes,
        peer_addr=connection.address,
        client=text(connection.client) or None,
        viewer=None if viewer.own_name is None else text(viewer.own_name),
        auth_subject=subject_text(viewer.auth_subject),
        dimensions=viewer.dimensions,
    )


def view_of(view_id: str, viewer: Viewer, conn_id: str, since: LetIn) -> ToldView:
    """A view whose beginning was told under this name."""
    return ToldView(view_id, viewer, conn_id, *names_of(viewer.connection.app, viewer.key), since)


def text(of_peer: str) -> str:
    """Text of a stranger, printable and not too long."""
    return printable(of_peer if len(of_peer) <= MAX_TEXT_CHARACTERS else of_peer[: MAX_TEXT_CHARACTERS - 1] + "…")


def _startup_us(viewer: Viewer) -> int | None:
    if viewer.first_frame_at is None:
        return None
    return round((viewer.first_frame_at - viewer.started_at) * 1_000_000)


def subject_text(subject: str | None) -> str | None:
    """Whom a key or token names, as facts tell it."""
    return None if subject is None else text(subject)


def names_of(app: str, key: str) -> tuple[str, str]:
    """App and stream of a key; either may hold slashes."""
    return text(app), text(key[len(app) + 1 :])
