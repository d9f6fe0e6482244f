"""Playing: who is let in to watch, who waits for a stream, and what viewers ask for while they watch.

Owns what one connection may play and what it is told. Whether somebody may is asked of the gatekeeper, and then whether
a stream has room, and which worker has it, of the registry; either may answer later. What a viewer is sent is the
matter of its stream.
"""

from functools import partial
from typing import Final

from penstock.access.request import Refused
from penstock.control.messages import NOBODY, SeatAnswer
from penstock.protocol.events import PauseChanged, PlayRequested, ReceiveChanged
from penstock.protocol.message import MessageType
from penstock.protocol.status import StatusCode
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.streams.access.gatekeeper import Gatekeeper
from penstock.serve.streams.access.grant import Grant
from penstock.serve.streams.dimensions import dimensions_of, own_name
from penstock.serve.streams.publishing import LAST_WORDS_S
from penstock.serve.streams.stream_table import Request, StreamTable
from penstock.serve.streams.viewer import Viewer

AT_LEAST_S: Final = 5.0
"""How long a viewer waits at least for a stream that another worker has, or another server, whatever its app says."""


class Playing:
    """All who watch here."""

    def __init__(self, table: StreamTable, gatekeeper: Gatekeeper) -> None:
        self._table = table
        self._gatekeeper = gatekeeper

    def on_requested(self, connection: RtmpConnection, event: PlayRequested) -> None:
        """Somebody wants to watch a stream."""
        if len(connection.plays) >= self._table.settings.max_plays_per_connection:
            self._table.observer.limit_hit("plays per connection", f"{connection.address} has {len(connection.plays)}")
            text = "This connection has no room for more plays."
            connection.session.reject_play(event.stream_id, text, StatusCode.PLAY_FAILED)
            return
        # A pause right behind it is of a play that has begun, if it can.
        connection.session.hold()
        self._gatekeeper.ask(connection, "play", event.name, event.query, partial(self._let_in, connection, event))

    def _let_in(self, connection: RtmpConnection, event: PlayRequested, grant: Grant | Refused) -> None:
        if connection.is_closed:
            return
        if isinstance(grant, Refused):
            connection.session.go_on()
            connection.session.reject_play(event.stream_id, "Access denied.", StatusCode.PLAY_FAILED)
            connection.queue.put(connection.session.data_to_send())
            connection.request_turn()
            return
        called = own_name(event.query) or connection.own_name
        dimensions = dimensions_of(self._table.settings.dimension_parameters, connection.dimensions, event.query)
        now = self._table.loop.now
        request = self._table.request(connection.app, grant.stream)
        viewer = Viewer(connection, event.stream_id, request.key, called, now, dimensions=dimensions, grant=grant)
        self.enter(viewer, request)

    def enter(self, viewer: Viewer, request: Request) -> None:
        """Somebody was let in, and watches as soon as there is a seat and the stream."""
        connection = viewer.connection
        connection.plays[viewer.stream_id] = viewer
        self._refit_plays(connection, but=viewer)
        answer = partial(self._decided, request, viewer)
        self._table.registry.watch(request.key, request.app.max_viewers_per_stream, answer)

    def _decided(self, request: Request, viewer: Viewer, seat: SeatAnswer) -> None:
        connection, key, app = viewer.connection, request.key, request.app
        if not connection.is_closed:
            connection.tell_decided()
        if connection.plays.get(viewer.stream_id) is not viewer:
            if seat.is_admitted:
                self._table.registry.unwatch(key)
            return  # the answer came too late
        if not seat.is_admitted:
            self._table.observer.limit_hit("viewers per stream", f"{key} has {app.max_viewers_per_stream}")
            self._turn_away(viewer, f"{key} has no room for more viewers.", StatusCode.PLAY_FAILED, "no room")
            return
        viewer.has_seat = True
        stream = self._table.streams.get(key)
        is_elsewhere = seat.owner not in (NOBODY, self._table.registry.worker)
        if stream is not None:
            stream.add(viewer, self._table.loop.now)
            viewer.work(self._table.loop.now)
            self._table.update_publisher_of(key)
            self._table.peers.followed.viewers_changed(key)
            if is_elsewhere and stream.epoch is not None:
                # It waits here for a publisher that has yielded, and goes on where nobody knew of it.
                self._table.owner_changed(key, seat.owner, seat.epoch)
            return
        may_be_pulled = request.may_be_pulled and not is_elsewhere and self._table.puller.may_pull(key)
        if is_elsewhere or may_be_pulled or app.play_wait_s > 0:
            # It is to be followed in another worker, or has not begun.
            is_on_its_way = is_elsewhere or may_be_pulled
            wait_s = max(app.play_wait_s, AT_LEAST_S) if is_on_its_way else app.play_wait_s
            viewer.waited_for_stream = not is_elsewhere
            self._table.waiting.setdefault(key, {})[viewer] = self._table.loop.now + wait_s
            if is_elsewhere:
                self._table.peers.followed.follow(key, seat.owner, seat.epoch)
            elif may_be_pulled:
                self._table.puller.want(key, connection.app, connection.via)
        else:
            self._not_found(viewer)

    def admit(self, viewer: Viewer) -> None:
        """A viewer of a stream that is there is told that its play begins."""
        viewer.is_admitted = True
        connection = viewer.connection
        connection.tell_play_begins(viewer.stream_id)
        self._table.observer.play_started(viewer)
        self._table.read_paces.update(connection)

    def end_play(self, viewer: Viewer) -> None:
        """A viewer has had all that it gets of a stream that is over."""
        connection = viewer.connection
        if connection.is_closed or connection.plays.get(viewer.stream_id) is not viewer:
            return
        viewer.finish_in_queue()
        self.stop(connection, viewer.stream_id, "stream ended")
        connection.tell_play_ended(viewer.stream_id)

    def missed(self, key: str) -> None:
        """Nobody has a stream that is waited for, the server that it would be pulled from included."""
        for viewer in list(self._table.waiting.get(key, ())):
            self._not_found(viewer)
        stream = self._table.streams.get(key)
        if stream is not None and stream.epoch is None and not stream.is_live:
            self._table.end_stream(stream)

    def orphaned(self, key: str) -> None:
        """Another worker pulled what is watched here, and was lost: it is pulled here."""
        stream, waiting = self._table.streams.get(key), self._table.waiting.get(key)
        app_name = stream.app_name if stream is not None else next(iter(waiting)).connection.app if waiting else None
        if app_name is not None and self._table.puller.may_pull(key):
            self._table.puller.want(key, app_name, ())

    def _not_found(self, viewer: Viewer) -> None:
        self._turn_away(
            viewer, f"{viewer.key} is not being published.", StatusCode.PLAY_STREAM_NOT_FOUND, "stream not found"
        )

    def _turn_away(self, viewer: Viewer, text: str, code: StatusCode, reason: str) -> None:
        connection = viewer.connection
        self._wait_no_more(viewer)
        self._leave_seat(viewer)
        connection.plays.pop(viewer.stream_id, None)
        self._refit_plays(connection)
        self._table.observer.play_stopped(viewer, reason)
        connection.tell_play_refused(viewer.stream_id, text, code)

    def _wait_no_more(self, viewer: Viewer) -> None:
        waiting = self._table.waiting.get(viewer.key)
        if waiting is not None:
            waiting.pop(viewer, None)
            if not waiting:
                del self._table.waiting[viewer.key]
                if viewer.key not in self._table.streams:
                    # It was to be followed when it was there.
                    self._table.peers.followed.forget(viewer.key)

    def _leave_seat(self, viewer: Viewer) -> None:
        if viewer.has_seat:
            viewer.has_seat = False
            self._table.registry.unwatch(viewer.key)

    def stop(self, connection: MediaConnection, stream_id: int, reason: str) -> None:
        """A viewer watches no more."""
        viewer = connection.plays.get(stream_id)
        if not isinstance(viewer, Viewer):
            return
        self._wait_no_more(viewer)
        self._leave_seat(viewer)
        stream = viewer.stream
        if stream is not None:
            viewer.finish_in_queue()
            stream.remove(viewer)
            self._table.update_publisher_of(viewer.key)
            self._table.peers.followed.viewers_changed(viewer.key)
            self._table.drop_unwatched(viewer.key)
        del connection.plays[stream_id]
        self._table.read_paces.update(connection)
        self._table.observer.play_stopped(viewer, reason)
        self._refit_plays(connection)

    def _refit_plays(self, connection: MediaConnection, but: Viewer | None = None) -> None:
        """The number of plays has changed: one alone is sent the shared encoding, several are filtered."""
        for viewer in list(connection.plays.values()):
            if viewer is not but and isinstance(viewer, Viewer) and viewer.stream is not None:
                viewer.stream.change_filter(viewer)

    def on_pause(self, connection: RtmpConnection, event: PauseChanged) -> None:
        """A viewer paused or resumed: it goes on at a key frame."""
        viewer = connection.plays.get(event.stream_id)
        if not isinstance(viewer, Viewer) or viewer.stream is None:
            return
        viewer.is_paused = event.is_paused
        if event.is_paused:
            viewer.finish_in_queue()
            viewer.stream.unseat(viewer)
        else:
            viewer.stream.wait(viewer, self._table.loop.now)
            connection.request_turn()

    def on_receive(self, connection: RtmpConnection, event: ReceiveChanged) -> None:
        """A viewer switched audio or video."""
        viewer = connection.plays.get(event.stream_id)
        if not isinstance(viewer, Viewer):
            return
        stream = viewer.stream
        if event.type_id == MessageType.AUDIO:
            viewer.track_filter = viewer.track_filter._replace(wants_audio=event.is_wanted)
        else:
            had_video = viewer.track_filter.wants_video
            viewer.track_filter = viewer.track_filter._replace(wants_video=event.is_wanted)
            if event.is_wanted and not had_video and stream is not None and viewer.cursor is not None:
                # Video begins anew at a key frame, and with it everything.
                viewer.finish_in_queue()
                stream.unseat(viewer)
                stream.wait(viewer, self._table.loop.now)
                connection.request_turn()
                return
        if stream is not None:
            stream.change_filter(viewer)

    def end(self, viewer: Viewer, reason: str) -> None:
        """A viewer may not watch any more."""
        connection = viewer.connection
        if connection.is_closed or connection.plays.get(viewer.stream_id) is not viewer:
            return
        viewer.finish_in_queue()
        self.stop(connection, viewer.stream_id, reason)
        connection.tell_play_revoked(viewer.stream_id, f"Ended by the server: {reason}.")
        if not connection.plays and not connection.publications:
            connection.close_soon(reason, LAST_WORDS_S)

    def look_after(self, viewer: Viewer, now: float) -> None:
        """A viewer whose stream did not begin in time is told so; one that may not watch any more goes."""
        if viewer.grant is not None:
            self._gatekeeper.look_at(viewer.grant, viewer.connection, partial(self.end, viewer))
        until = self._table.waiting.get(viewer.key, {}).get(viewer)
        if until is not None and now >= until:
            self._not_found(viewer)
