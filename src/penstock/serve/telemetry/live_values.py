"""Open connections, views and streams as web is told of them, under the names that facts give them.

Owns the names of those that facts do not tell of, since their address has begun too much: they are open all the same.
What does not change while something is open is made printable once; the rest is read whenever it is told.
"""

import itertools
from collections.abc import Callable, Hashable
from typing import NamedTuple

from penstock.control.live import (
    AudioTrack,
    LeftOutTrack,
    LiveConnection,
    LivePublisher,
    LiveStreamState,
    LiveView,
    VideoTrack,
)
from penstock.media.describe import audio_setup_of, video_setup_of
from penstock.media.frame import FrameKind
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.publisher import Publisher
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.facts_observer import FactsObserver
from penstock.serve.telemetry.facts_writer import FactClock
from penstock.serve.telemetry.meter import Meters
from penstock.serve.telemetry.sampling import lag_of
from penstock.serve.telemetry.told_sessions import LetIn, ToldConnection, names_of, subject_text, text


class _FixedView(NamedTuple):
    """What does not change while somebody watches."""

    view_id: str
    conn_id: str
    app: str
    stream: str
    protocol: str
    peer_addr: str
    client: str | None
    auth_subject: str | None
    started_at_us: int


class LiveValues:
    """Reads what is open now."""

    def __init__(
        self,
        facts: FactsObserver,
        meters: Meters,
        clock: FactClock,
        boot_id: str,
        is_recording: Callable[[str], bool],
    ) -> None:
        """`is_recording`: whether the stream of a key is being recorded."""
        self._facts = facts
        self._meters = meters
        self._clock = clock
        self._boot_id = boot_id
        self._is_recording = is_recording
        self._numbers = itertools.count(1)
        self._own_ids: dict[Hashable, str] = {}
        """Of those that have no name in facts."""
        self._fixed: dict[Viewer, _FixedView] = {}
        self._tracks: dict[LiveStream, tuple[VideoTrack | None, AudioTrack | None]] = {}

    def rename(self) -> None:
        """Facts have told everything to end and to begin anew, under other names."""
        self._fixed.clear()

    def forget(self, each: Viewer | LiveStream) -> None:
        """It is gone."""
        self._own_ids.pop(each, None)
        if isinstance(each, Viewer):
            self._fixed.pop(each, None)
        else:
            self._tracks.pop(each, None)

    def forget_publication(self, live_stream: LiveStream) -> None:
        """The next publication of a stream has another name."""
        self._own_ids.pop(live_stream, None)

    def codecs_known(self, live_stream: LiveStream) -> None:
        """Read what a stream consists of."""
        payloads = live_stream.log.config.decoder_setups
        video, audio = payloads.get(FrameKind.VIDEO), payloads.get(FrameKind.AUDIO)
        self._tracks[live_stream] = (
            None if video is None else _video_track(video),
            None if audio is None else _audio_track(audio),
        )

    def is_sampled(self, live_stream: LiveStream) -> bool:
        """Whether facts tell of what is published, and so read its meter."""
        return self._facts.publication_id_of(live_stream) is not None

    def conn_id(self, connection: MediaConnection) -> str:
        """The name of a connection."""
        return self._facts.conn_id_of(connection)

    def connection(self, connection: MediaConnection) -> LiveConnection:
        """An open connection, counted as its facts do."""
        told = self._facts.told_connection(connection) or _from_the_beginning(connection)
        return LiveConnection(
            told.conn_id,
            connection.address,
            connection.protocol,
            text(connection.client) or None,
            text(connection.app) or None,
            told.began_us + self._clock.offset_us,
            connection.received_bytes - told.received_bytes,
            self._facts.sent_bytes_on(connection) - told.sent_bytes,
        )

    def view_id(self, viewer: Viewer) -> str:
        """The name of a view."""
        return self._facts.view_id_of(viewer) or self._own_id(viewer)

    def view(self, viewer: Viewer) -> LiveView | None:
        """Somebody who watches; None: it was not let in yet."""
        since = self._facts.let_in(viewer)
        if since is None:
            return None
        fixed = self._fixed.get(viewer)
        if fixed is None:
            fixed = self._fixed[viewer] = self._fixed_view(viewer, since)
        return LiveView(
            *fixed,
            self._clock.mono_us() - since.began_us,
            viewer.sent_bytes - since.sent_bytes,
            lag_of(viewer).lag_ms,
            viewer.skips - since.skips,
            # May be another by now: what was let in is decided anew when the rules change.
            None if viewer.grant is None else viewer.grant.allowed.rule,
        )

    def _fixed_view(self, viewer: Viewer, since: LetIn) -> _FixedView:
        connection = viewer.connection
        return _FixedView(
            self.view_id(viewer),
            self._facts.conn_id_of(connection),
            *names_of(connection.app, viewer.key),
            connection.protocol,
            connection.address,
            text(connection.client) or None,
            subject_text(viewer.auth_subject),
            since.began_us + self._clock.offset_us,
        )

    def stream(self, live_stream: LiveStream) -> LiveStreamState:
        """A stream that this worker has."""
        meter, publisher = self._meters.of(live_stream), live_stream.publisher
        figures = meter.last if publisher is not None else None
        app, stream = names_of(live_stream.app_name, live_stream.key)
        video, audio = self._tracks.get(live_stream, (None, None))
        return LiveStreamState(
            app=app,
            stream=stream,
            started_at_us=round(live_stream.began_at * 1_000_000) + self._clock.offset_us,
            publisher=None if publisher is None else self._publisher(live_stream, publisher),
            video=video,
            audio=audio,
            is_recording=self._is_recording(live_stream.key),
            bitrate_bps=0 if figures is None else round(figures.bitrate_bps),
            fps=0.0 if figures is None else round(figures.fps, 3),
            keyframe_interval_ms=None if figures is None else figures.keyframe_interval_ms,
            av_skew_ms=None if figures is None or figures.av_skew_ms is None else round(figures.av_skew_ms, 1),
            received_bytes=meter.received_bytes,
            left_out=_left_out_of(live_stream),
        )

    def _publisher(self, live_stream: LiveStream, publisher: Publisher) -> LivePublisher:
        return LivePublisher(
            self._facts.publication_id_of(live_stream) or self._own_id(live_stream),
            self._facts.conn_id_of(publisher),
            publisher.address,
            publisher.protocol,
            text(publisher.client) or None,
            subject_text(live_stream.auth_subject),
            None if live_stream.grant is None else live_stream.grant.allowed.rule,
            None if publisher.pulled_from is None else text(publisher.pulled_from),
        )

    def _own_id(self, each: Viewer | LiveStream) -> str:
        name = self._own_ids.get(each)
        if name is None:
            name = self._own_ids[each] = f"{self._boot_id}-u{next(self._numbers)}"
        return name


def _from_the_beginning(connection: MediaConnection) -> ToldConnection:
    return ToldConnection(connection, connection.id, round(connection.opened_at * 1_000_000))


def _left_out_of(live_stream: LiveStream) -> list[LeftOutTrack]:
    forms = (form.left_out for form in live_stream.encodings.values())
    found = dict.fromkeys(itertools.chain(live_stream.not_packaged, *forms))
    return [LeftOutTrack(each.what, each.why) for each in found]


def _video_track(payload: bytes) -> VideoTrack | None:
    setup = video_setup_of(payload)
    return None if setup is None else VideoTrack(setup.codec.label, setup.width_px, setup.height_px)


def _audio_track(payload: bytes) -> AudioTrack | None:
    setup = audio_setup_of(payload)
    return None if setup is None else AudioTrack(setup.codec.label, setup.sample_rate_hz, setup.channels)
