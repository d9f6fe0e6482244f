"""Watching: what becomes of those who want to play a stream.

Owns who is let in, who waits for a stream that is not there yet, and how a play changes and ends. Sending is the
channel's and the peer's matter.
"""

from typing import TYPE_CHECKING

from penstock.protocol.events import PauseChanged, PlayRequested, ReceiveChanged
from penstock.protocol.message import MessageType
from penstock.protocol.status import StatusCode
from penstock.serve.channel import Channel
from penstock.serve.ffmpeg_opening import FfmpegOpening
from penstock.serve.peer import Peer
from penstock.serve.viewer import Viewer

if TYPE_CHECKING:
    from penstock.serve.station import Station


class Playing:
    """All plays of a station."""

    def __init__(self, station: "Station") -> None:
        self._station = station
        self._ffmpeg_opening = FfmpegOpening(station.reactor, station.encoders)
        self._waiting_plays: dict[str, dict[Viewer, float]] = {}
        """Viewers of streams that are not there, and until when they wait."""

    def let_in_waiting(self, channel: Channel) -> None:
        """A stream has begun: those who waited for it are let in."""
        for viewer in self._waiting_plays.pop(channel.key, {}):
            # A peer that waited with two plays may have gone with the first.
            if not viewer.peer.is_closed:
                self._let_in(viewer, channel)

    def tell_end(self, viewer: Viewer) -> None:
        """The stream of a viewer is over."""
        peer = viewer.peer
        if peer.is_closed:
            return
        peer.queue_rest(viewer)
        peer.session.end_play(viewer.stream_id)
        self.stop(peer, viewer.stream_id, "stream ended")
        peer.send_session_data()

    def on_play(self, peer: Peer, event: PlayRequested) -> None:
        """Somebody wants to watch."""
        key = f"{peer.app}/{event.name}"
        viewer = Viewer(peer, event.stream_id, key, event.query, self._station.reactor.now)
        app = self._station.settings.app(peer.app)
        channel = self._station.channels.get(key)
        if channel is not None and len(channel.viewers) >= app.max_viewers_per_stream:
            self._station.observer.limit_hit("viewers per stream", f"{key} has {len(channel.viewers)}")
            peer.session.reject_play(event.stream_id, f"{key} has no room for more viewers.", StatusCode.PLAY_FAILED)
            return
        peer.viewers[event.stream_id] = viewer
        for other in list(peer.viewers.values()):
            if other is not viewer and other.channel is not None:
                other.channel.change_selection(other)
        if channel is not None:
            self._let_in(viewer, channel)
        elif app.play_wait_s > 0:
            self._waiting_plays.setdefault(key, {})[viewer] = self._station.reactor.now + app.play_wait_s
        else:
            self._turn_away(viewer)

    def _let_in(self, viewer: Viewer, channel: Channel) -> None:
        peer = viewer.peer
        peer.session.accept_play(viewer.stream_id)
        peer.queue(peer.session.data_to_send())
        self._station.observer.play_started(viewer)
        channel.add(viewer, self._station.reactor.now)
        self._station.update_publisher_of(channel)
        self._station.update_gathering(peer)
        peer.flush_output()
        self._ffmpeg_opening.watch(viewer)

    def _turn_away(self, viewer: Viewer) -> None:
        peer = viewer.peer
        peer.viewers.pop(viewer.stream_id, None)
        peer.session.reject_play(viewer.stream_id, f"{viewer.key} is not being published.")
        self._station.observer.play_stopped(viewer, "stream not found")
        peer.send_session_data()

    def stop(self, peer: Peer, stream_id: int, reason: str) -> None:
        """A viewer watches no more."""
        viewer = peer.viewers.pop(stream_id, None)
        if viewer is None:
            return
        waiting = self._waiting_plays.get(viewer.key)
        if waiting is not None:
            waiting.pop(viewer, None)
        channel = viewer.channel
        if channel is not None:
            self._finish_half_message(viewer)
            channel.remove(viewer)
            self._station.update_publisher_of(channel)
        self._station.update_gathering(peer)
        self._station.observer.play_stopped(viewer, reason)
        for other in list(peer.viewers.values()):
            if other.channel is not None:
                other.channel.change_selection(other)

    def _finish_half_message(self, viewer: Viewer) -> None:
        """Whatever is said to a peer next must come behind the message that is half out."""
        cursor = viewer.cursor
        if cursor is None or viewer.is_in_step or not cursor.is_inside_message or viewer.peer.is_closed:
            return
        piece = cursor.next_range()
        if piece is not None:
            entry = piece.segment.entry_at(piece.position)
            size = entry.position + entry.encoded_bytes - piece.position
            viewer.peer.queue_first(piece.segment.read(piece.position, size))
            cursor.advance(size)

    def on_pause(self, peer: Peer, event: PauseChanged) -> None:
        """A viewer paused or resumed: it goes on at a key frame."""
        viewer = peer.viewers.get(event.stream_id)
        if viewer is None or viewer.channel is None:
            return
        viewer.is_paused = event.is_paused
        if event.is_paused:
            self._finish_half_message(viewer)
            viewer.channel.unseat(viewer)
        else:
            viewer.channel.wait(viewer, self._station.reactor.now)
            viewer.channel.seat_waiting(self._station.reactor.now)

    def on_receive(self, peer: Peer, event: ReceiveChanged) -> None:
        """A viewer switched audio or video."""
        viewer = peer.viewers.get(event.stream_id)
        if viewer is None:
            return
        if event.type_id == MessageType.AUDIO:
            viewer.selection = viewer.selection._replace(wants_audio=event.is_wanted)
        else:
            had_video = viewer.selection.wants_video
            viewer.selection = viewer.selection._replace(wants_video=event.is_wanted)
            if event.is_wanted and not had_video and viewer.channel is not None and viewer.cursor is not None:
                # Video begins anew at a key frame, and with it everything.
                self._finish_half_message(viewer)
                viewer.channel.unseat(viewer)
                viewer.channel.wait(viewer, self._station.reactor.now)
                return
        if viewer.channel is not None:
            viewer.channel.change_selection(viewer)

    def turn_away_late(self, now: float) -> None:
        """Viewers whose stream did not begin in time."""
        for key, waiting in list(self._waiting_plays.items()):
            for viewer in [viewer for viewer, until in waiting.items() if now >= until]:
                if waiting.pop(viewer, None) is not None:
                    self._turn_away(viewer)
            if not waiting:
                del self._waiting_plays[key]
