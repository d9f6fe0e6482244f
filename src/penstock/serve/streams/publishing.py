"""Publishing: who is given a stream's name, how a publication begins, and what becomes of it when it ends.

Owns what one connection may publish and what a claim of a name leads to. Whether somebody may publish is asked of the
gatekeeper, and then whether a name is free of the registry; either may answer later. Whether a publisher that is there
is alive is the matter of `liveness`.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.access.request import Refused
from penstock.control.messages import GRANTED, Challenge, Continuation, PublishAnswer, Verdict, key_of
from penstock.protocol.events import EndReason, PublishEnded, PublishRequested
from penstock.protocol.states import StreamState
from penstock.protocol.status import StatusCode
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.packaging.boundaries import Boundaries, Numbering
from penstock.relay.segment import SegmentStore
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.streams.access.gatekeeper import Gatekeeper
from penstock.serve.streams.access.grant import Grant
from penstock.serve.streams.dimensions import dimensions_of
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.liveness import Liveness
from penstock.serve.streams.publisher import Publisher
from penstock.serve.streams.registry import OnJudged
from penstock.serve.streams.stream_table import Request, StreamTable

_MAX_PUBLICATIONS: Final = 8
"""Of one connection, since they all end with it in one step. Encoders have one."""
PULLED: Final = "pull"
"""What the publications of pulls are called, where publishers say live, record or append."""
LAST_WORDS_S: Final = 0.5
"""For how long one whose publication or play is ended may take to hear of it, before it is closed."""
_YIELDED_S: Final = 5.0
"""For how long at least a stream whose publisher was replaced waits for the one that is to follow."""


class Publishing:
    """All who publish here."""

    def __init__(
        self,
        table: StreamTable,
        store: SegmentStore,
        gatekeeper: Gatekeeper,
        ping: Callable[[RtmpConnection], None],
    ) -> None:
        """`ping`: asks a publisher for a sign of life."""
        self._table = table
        self._gatekeeper = gatekeeper
        self._store = store
        self._liveness = Liveness(table.loop, table.streams, ping)
        self.budget = LogBudget(table.settings.max_total_log_bytes)

    def on_requested(self, connection: RtmpConnection, event: PublishRequested) -> None:
        """Somebody wants to publish under a name."""
        if len(connection.publications) >= _MAX_PUBLICATIONS:
            detail = f"{connection.address} has {_MAX_PUBLICATIONS}"
            self._table.observer.limit_hit("publications per connection", detail)
            connection.session.reject_publish(event.stream_id, "This connection has no room for more publications.")
            return
        answer = partial(self._let_in, connection, event)
        self._gatekeeper.ask(connection, "publish", event.name, event.query, answer)

    def _let_in(self, connection: RtmpConnection, event: PublishRequested, grant: Grant | Refused) -> None:
        if _is_too_late(connection, event):
            return
        if isinstance(grant, Refused):
            connection.session.reject_publish(event.stream_id, "Access denied.", StatusCode.PUBLISH_DENIED)
            connection.close_soon("access refused", LAST_WORDS_S)
            return
        request = self._table.request(connection.app, grant.stream)
        self._table.registry.claim(
            request.key,
            connection.id,
            may_replace=request.app.may_replace_publisher,
            grace_s=request.app.grace_s,
            answer=partial(self._decided, connection, request, event, grant),
        )

    def _decided(
        self,
        connection: RtmpConnection,
        request: Request,
        event: PublishRequested,
        grant: Grant,
        name: PublishAnswer,
    ) -> None:
        is_too_late = _is_too_late(connection, event)
        is_granted = name.verdict in GRANTED
        if is_granted and (is_too_late or self._table.is_closing):
            self._give_back(request.key, name.epoch)
        if is_too_late:
            return
        if is_granted and not self._table.is_closing:
            self._begin(connection, request, event, grant, name)
        else:
            reason = f"{request.key} is being published already."
            connection.session.reject_publish(event.stream_id, reason, StatusCode.PUBLISH_BAD_NAME)
            self._table.observer.publish_refused(connection, request.key, reason)
        connection.request_turn()

    def _give_back(self, key: str, epoch: int) -> None:
        """A name was granted to one that is gone. A stream that waits for its publisher here goes on waiting."""
        stream = self._table.streams.get(key)
        if stream is not None and stream.epoch is not None:
            stream.epoch = epoch
            self._table.registry.begun(key, epoch)
        else:
            self._table.registry.ended(key, epoch)

    def challenged(self, challenge: Challenge, answer: OnJudged) -> None:
        """Somebody wants a name that this worker has: it is given up if its publisher is, or may be replaced."""
        key = key_of(challenge.name)
        decide = partial(self._yield, key, answer)
        self._liveness.judge(key, challenge.claimant, decide, may_replace=challenge.may_replace)

    def _yield(self, key: str, answer: OnJudged, verdict: Verdict) -> None:
        stream = self._table.streams.get(key)
        if verdict is not Verdict.REFUSE:
            self._table.puller.give_way(key)
        if verdict is Verdict.REFUSE or stream is None or stream.epoch is None:
            answer(verdict, None)
            return
        self._end_publisher_of(stream)
        answer(verdict, stream.continuation)

    def _end_publisher_of(self, stream: LiveStream) -> None:
        first = stream.publisher
        if first is None:
            return
        if isinstance(first, RtmpConnection):
            for stream_id, published in list(first.publications.items()):
                if published is stream:
                    first.session.end_publish(stream_id, "Another publisher has taken over.")
                    del first.publications[stream_id]
        stream.flush(self._table.loop.now)
        self._table.observer.publish_stopped(first, stream, "replaced by another publisher")
        stream.lose(self._table.loop.now, at_least_s=_YIELDED_S)
        self._table.peers.offers.changed(stream)
        if isinstance(first, RtmpConnection):
            first.close_when_sent = True
            first.send_session_data()

    def _begin(
        self,
        connection: RtmpConnection,
        request: Request,
        event: PublishRequested,
        grant: Grant,
        name: PublishAnswer,
    ) -> None:
        table = self._table
        stream = self._stream_to_publish(request.key, connection.app, name)
        dimensions = dimensions_of(table.settings.dimension_parameters, connection.dimensions, event.query)
        stream.begin(connection, table.loop.now, dimensions, grant)
        connection.publications[event.stream_id] = stream
        connection.session.accept_publish(event.stream_id)
        connection.update_rates()
        table.read_paces.update(connection)
        self._announce(connection, stream, event.publishing_type)

    def _announce(self, publisher: Publisher, stream: LiveStream, publishing_type: str) -> None:
        """A publication has begun: whoever waits for it has it from now on, here and in other workers."""
        table = self._table
        table.observer.publish_started(publisher, stream, publishing_type)
        if stream.epoch is not None:
            table.registry.begun(stream.key, stream.epoch)
        table.peers.offers.changed(stream)
        table.seat_waiting(stream)
        table.update_publisher_of(stream.key)

    # Of pulls, which have asked for the name by themselves.

    def begin_pulled(self, publisher: Publisher, key: str, app_name: str, name: PublishAnswer) -> LiveStream:
        """What is pulled from another server begins here, or goes on."""
        stream = self._stream_to_publish(key, app_name, name)
        stream.begin(publisher, self._table.loop.now)
        self._announce(publisher, stream, PULLED)
        return stream

    def stop_pulled(self, publisher: Publisher, stream: LiveStream, reason: str) -> None:
        """It comes from elsewhere from now on: the publication ends, and the next one is about to begin."""
        stream.flush(self._table.loop.now)
        self._table.observer.publish_stopped(publisher, stream, reason)

    def end_pulled(self, publisher: Publisher, stream: LiveStream, reason: str, *, has_grace: bool) -> None:
        """What is pulled has ended, or its connection was lost."""
        self._close(publisher, stream, reason, has_grace=has_grace)

    def _stream_to_publish(self, key: str, app_name: str, grant: PublishAnswer) -> LiveStream:
        """The stream that is here, or a new one, which goes on where it was in another worker if there was one."""
        table = self._table
        stream = table.streams.get(key)
        if stream is not None and stream.epoch is not None:
            stream.epoch = grant.epoch
            return stream
        continuation = grant.continuation
        if continuation is None and stream is not None:
            # Its worker was lost, and nobody has told the registry how far it had come: for those here, this far.
            continuation = stream.continuation
        position = 0 if continuation is None else continuation.position
        limits, stamps = table.settings.log_limits, self._stamps(continuation)
        log = StreamLog(self._store, table.encoders, limits, self.budget, position, stamps=stamps)
        # Also where it was only asked for: it is written here from now on.
        table.peers.followed.forget(key)
        if stream is None:
            stream = table.add_stream(key, app_name, log)
        else:
            stream.move(log, table.loop.now)
        stream.epoch = grant.epoch
        if continuation is not None:
            stream.resume(continuation)
        if grant.recording_id is not None or grant.is_recording_stopped:
            table.observer.stream_arrived(stream, grant.recording_id)
        return stream

    def _stamps(self, continuation: Continuation | None) -> Boundaries | None:
        """Where its parts and segments begin, counted on from where it was."""
        rule = self._table.settings.hls.rule
        if rule is None:
            return None
        if continuation is not None and continuation.numbering is not None:
            return Boundaries(rule, Numbering(*continuation.numbering))
        return Boundaries(rule, Numbering.at(int(self._table.wall_clock() * 1000)))

    def stream_of(self, connection: RtmpConnection, stream_id: int) -> LiveStream | None:
        """What a connection publishes on a message stream."""
        sink = connection.publications.get(stream_id)
        return None if sink is None else self._table.streams.get(sink.key)

    def look_at(self, stream: LiveStream) -> None:
        """Whether its publisher may go on."""
        publisher, grant = stream.publisher, stream.grant
        if isinstance(publisher, RtmpConnection) and grant is not None:
            self._gatekeeper.look_at(grant, publisher, partial(self._lost, stream, grant))

    def _lost(self, stream: LiveStream, grant: Grant, reason: str) -> None:
        publisher = stream.publisher
        if isinstance(publisher, RtmpConnection) and stream.grant is grant:
            self.end(publisher, reason)
            publisher.close_soon(reason, LAST_WORDS_S)

    def end(self, connection: RtmpConnection, reason: str) -> None:
        """Somebody may not publish any more: all its streams are over, without grace."""
        for stream_id in list(connection.publications):
            connection.session.end_publish(stream_id, f"Ended by the server: {reason}.", StatusCode.PUBLISH_DENIED)
            self._end(connection, stream_id, reason, has_grace=False)

    def on_ended(self, connection: RtmpConnection, event: PublishEnded) -> None:
        """A publication is over, or its connection."""
        has_grace = event.reason is EndReason.CONNECTION_LOST
        self._end(connection, event.stream_id, event.reason.value, has_grace=has_grace)

    def _end(self, connection: RtmpConnection, stream_id: int, reason: str, *, has_grace: bool) -> None:
        stream = self.stream_of(connection, stream_id)
        if stream is None:
            return
        del connection.publications[stream_id]
        connection.update_rates()
        self._table.read_paces.update(connection)
        self._close(connection, stream, reason, has_grace=has_grace)

    def _close(self, publisher: Publisher, stream: LiveStream, reason: str, *, has_grace: bool) -> None:
        # Flushed first: who counts a publication's frames has all of them when it hears of the end.
        stream.flush(self._table.loop.now)
        self._table.observer.publish_stopped(publisher, stream, reason)
        if has_grace and stream.app.grace_s > 0 and not self._table.is_closing:
            stream.lose(self._table.loop.now)
            self._table.peers.offers.changed(stream)
        else:
            self._table.end_stream(stream)


def _is_too_late(connection: RtmpConnection, event: PublishRequested) -> bool:
    """Whether nobody waits for the answer any more."""
    if connection.is_closed:
        return True
    return connection.session.stream_state(event.stream_id) is not StreamState.PUBLISH_REQUESTED
