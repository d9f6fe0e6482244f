"""Watching: what becomes of those who want to play a stream.

Owns who is let in, who waits for a stream that is not there yet, and how a play changes and ends. Sending is the
live_stream's and the connection's matter.
"""

from typing import TYPE_CHECKING

from penstock.protocol.events import PauseChanged, PlayRequested, ReceiveChanged
from penstock.protocol.message import MessageType
from penstock.protocol.status import StatusCode
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.streams.ffmpeg_opening import FfmpegOpening
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.viewer import Viewer

if TYPE_CHECKING:
    from penstock.serve.streams.broker import Broker


class Playing:
    """All plays of a broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._ffmpeg_opening = FfmpegOpening(broker.reactor, broker.encoders)
        self._waiting_plays: dict[str, dict[Viewer, float]] = {}
        """Viewers of streams that are not there, and until when they wait."""

    def let_in_waiting(self, live_stream: LiveStream) -> None:
        """A stream has begun: those who waited for it are let in."""
        for viewer in self._waiting_plays.pop(live_stream.key, {}):
            # A connection that waited with two plays may have gone with the first.
            if not viewer.connection.is_closed:
                self._let_in(viewer, live_stream)

    def tell_end(self, viewer: Viewer) -> None:
        """The stream of a viewer is over."""
        connection = viewer.connection
        if connection.is_closed:
            return
        connection.queue_rest(viewer)
        connection.session.end_play(viewer.stream_id)
        self.stop(connection, viewer.stream_id, "stream ended")
        connection.send_session_data()

    def on_play(self, connection: RtmpConnection, event: PlayRequested) -> None:
        """Somebody wants to watch."""
        key = f"{connection.app}/{event.name}"
        viewer = Viewer(connection, event.stream_id, key, event.query, self._broker.reactor.now)
        app = self._broker.settings.app(connection.app)
        live_stream = self._broker.live_streams.get(key)
        if live_stream is not None and len(live_stream.viewers) >= app.max_viewers_per_stream:
            self._broker.observer.limit_hit("viewers per stream", f"{key} has {len(live_stream.viewers)}")
            connection.session.reject_play(
                event.stream_id, f"{key} has no room for more viewers.", StatusCode.PLAY_FAILED
            )
            return
        connection.viewers[event.stream_id] = viewer
        for other in list(connection.viewers.values()):
            if other is not viewer and other.live_stream is not None:
                other.live_stream.change_selection(other)
        if live_stream is not None:
            self._let_in(viewer, live_stream)
        elif app.play_wait_s > 0:
            self._waiting_plays.setdefault(key, {})[viewer] = self._broker.reactor.now + app.play_wait_s
        else:
            self._turn_away(viewer)

    def _let_in(self, viewer: Viewer, live_stream: LiveStream) -> None:
        connection = viewer.connection
        connection.session.accept_play(viewer.stream_id)
        connection.queue(connection.session.data_to_send())
        self._broker.observer.play_started(viewer)
        live_stream.add(viewer, self._broker.reactor.now)
        self._broker.update_publisher_of(live_stream)
        self._broker.update_gathering(connection)
        connection.flush_output()
        self._ffmpeg_opening.watch(viewer)

    def _turn_away(self, viewer: Viewer) -> None:
        connection = viewer.connection
        connection.viewers.pop(viewer.stream_id, None)
        connection.session.reject_play(viewer.stream_id, f"{viewer.key} is not being published.")
        self._broker.observer.play_stopped(viewer, "stream not found")
        connection.send_session_data()

    def stop(self, connection: RtmpConnection, stream_id: int, reason: str) -> None:
        """A viewer watches no more."""
        viewer = connection.viewers.pop(stream_id, None)
        if viewer is None:
            return
        waiting = self._waiting_plays.get(viewer.key)
        if waiting is not None:
            waiting.pop(viewer, None)
        live_stream = viewer.live_stream
        if live_stream is not None:
            self._finish_half_message(viewer)
            live_stream.remove(viewer)
            self._broker.update_publisher_of(live_stream)
        self._broker.update_gathering(connection)
        self._broker.observer.play_stopped(viewer, reason)
        for other in list(connection.viewers.values()):
            if other.live_stream is not None:
                other.live_stream.change_selection(other)

    def _finish_half_message(self, viewer: Viewer) -> None:
        """Whatever is said to a connection next must come behind the message that is half out."""
        cursor = viewer.cursor
        if cursor is None or viewer.is_in_step or not cursor.is_inside_message or viewer.connection.is_closed:
            return
        piece = cursor.next_range()
        if piece is not None:
            entry = piece.segment.entry_at(piece.position)
            size = entry.position + entry.encoded_bytes - piece.position
            viewer.connection.queue_first(piece.segment.read(piece.position, size))
            cursor.advance(size)

    def on_pause(self, connection: RtmpConnection, event: PauseChanged) -> None:
        """A viewer paused or resumed: it goes on at a key frame."""
        viewer = connection.viewers.get(event.stream_id)
        if viewer is None or viewer.live_stream is None:
            return
        viewer.is_paused = event.is_paused
        if event.is_paused:
            self._finish_half_message(viewer)
            viewer.live_stream.unseat(viewer)
        else:
            viewer.live_stream.wait(viewer, self._broker.reactor.now)
            viewer.live_stream.seat_waiting(self._broker.reactor.now)

    def on_receive(self, connection: RtmpConnection, event: ReceiveChanged) -> None:
        """A viewer switched audio or video."""
        viewer = connection.viewers.get(event.stream_id)
        if viewer is None:
            return
        if event.type_id == MessageType.AUDIO:
            viewer.track_filter = viewer.track_filter._replace(wants_audio=event.is_wanted)
        else:
            had_video = viewer.track_filter.wants_video
            viewer.track_filter = viewer.track_filter._replace(wants_video=event.is_wanted)
            if event.is_wanted and not had_video and viewer.live_stream is not None and viewer.cursor is not None:
                # Video begins anew at a key frame, and with it everything.
                self._finish_half_message(viewer)
                viewer.live_stream.unseat(viewer)
                viewer.live_stream.wait(viewer, self._broker.reactor.now)
                return
        if viewer.live_stream is not None:
            viewer.live_stream.change_selection(viewer)

    def turn_away_late(self, now: float) -> None:
        """Viewers whose stream did not begin in time."""
        for key, waiting in list(self._waiting_plays.items()):
            for viewer in [viewer for viewer, until in waiting.items() if now >= until]:
                if waiting.pop(viewer, None) is not None:
                    self._turn_away(viewer)
            if not waiting:
                del self._waiting_plays[key]
