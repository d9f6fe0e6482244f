"""One stream that is pulled: its connection to the origin, and what becomes of the stream here.

Owns the tries, the pauses between them, and when it is over. The first message of a connection begins the publication:
until then the origin has the stream only by its word. Where a connection is lost later, the stream waits as it does for
a publisher that was lost, and goes on when one of the next tries brings something. A request of the origin to come back
is obeyed beside the connection that there is, which is given up at the first message of the new one.

Whatever an origin does, or we do wrong about it, costs this stream and nothing else.
"""

from typing import Final, NamedTuple, Protocol

from penstock.control.messages import PublishAnswer
from penstock.protocol.data import SAMPLE_ACCESS
from penstock.protocol.events import DataCleared, DataReceived, Event, MediaReceived, ReconnectRequested, StreamEnded
from penstock.pulls.origins import Origin
from penstock.rtmp_address import StreamAddress, moved_to
from penstock.serve.outgoing.connection import OutgoingOwner
from penstock.serve.outgoing.words import Failure
from penstock.serve.reactor import Loop, Timer
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.publisher import Publisher

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
"""Between two tries: doubled each time up to this."""
_SETTLED_S: Final = 10.0
"""A connection that brought the stream for so long was a success: the next pause is a short one again."""
_MOVES_APART_S: Final = 5.0
"""An origin that asks its clients to come back whenever they do is obeyed so often."""
IDLE: Final = "nobody watches"
ENDED: Final = "ended at its origin"
MOVED: Final = "goes on over another connection"
# What servers tell players themselves; it is no part of what was published.
_TO_PLAYERS: Final = frozenset({SAMPLE_ACCESS, "onStatus"})


class Source(Protocol):
    """A connection to an origin."""

    @property
    def address(self) -> StreamAddress:
        """Where it leads."""

    @property
    def peer_address(self) -> str:
        """The same as it was looked up."""

    @property
    def received_bytes(self) -> int:
        """From there."""

    @property
    def server_via(self) -> tuple[str, ...]:
        """What the server there calls itself, if it is one of ours."""

    def end(self, reason: str) -> None:
        """Give the stream back, and close."""

    def close(self, failure: Failure) -> None:
        """The end, at once."""


class PulledPublisher:
    """The publisher of what one connection brings."""

    __slots__ = ("address", "heard_at", "id", "protocol", "pulled_from", "via")

    client: Final = ""

    def __init__(self, name: str, source: Source, shown: str, now: float) -> None:
        self.id = name
        self.address = source.peer_address
        self.protocol = "rtmps" if source.address.is_tls else "rtmp"
        self.heard_at = now
        self.pulled_from = shown
        self.via = source.server_via


class Wanted(NamedTuple):
    """A stream of this server, be it there or not."""

    key: str
    app_name: str


class PullHost(Protocol):
    """What a pull asks of whoever has all of them."""

    @property
    def loop(self) -> Loop: ...

    def open(self, pull: "Pull", address: StreamAddress, owner: OutgoingOwner) -> Source:
        """Open a connection to play a stream. The owner is never called back within this call."""

    def begin(self, pull: "Pull", grant: PublishAnswer, publisher: Publisher) -> LiveStream:
        """Media has come: it is published here, for the first time or again."""

    def stop(self, publisher: Publisher, stream: LiveStream, reason: str) -> None:
        """Another connection brings it from now on."""

    def end(self, pull: "Pull", publisher: Publisher | None, reason: str, *, has_grace: bool) -> None:
        """It comes no more. Without grace the stream is over, and with it the pull."""

    def miss(self, pull: "Pull", failure: Failure) -> None:
        """It is not to be had, and the pull is over."""

    def lost(self, pull: "Pull", reason: str) -> None:
        """A try has failed; there will be another one."""

    def bug(self, error: Exception) -> None:
        """An error of ours."""


class Pull:
    """One stream on its way from its origin."""

    def __init__(self, host: PullHost, name: str, wanted: Wanted, origin: Origin, via: tuple[str, ...]) -> None:
        """`via`: the servers that ask for it, this one the last."""
        self.id = name
        self.key, self.app_name = wanted
        self.origin = origin
        self.via = via
        self.grant: PublishAnswer | None = None
        """By which this worker has the name; None: it has asked for it."""
        self.stream: LiveStream | None = None
        self.is_over = False
        self._host = host
        self._loop = host.loop
        self._address = origin.address
        self._publisher: PulledPublisher | None = None
        self._source: Source | None = None
        """The connection that brings it now."""
        self._next: Source | None = None
        """One that has brought nothing yet."""
        self._tries = 0
        self._brings_since = 0.0
        self._opened = 0
        self._moved_at = -_MOVES_APART_S
        self._retry: Timer | None = None
        self._first_by: Timer | None = None
        self._idle: Timer | None = None
        self._last_failure = Failure("it sends nothing")
        self._past_bytes = 0

    @property
    def received_bytes(self) -> int:
        """From its origin."""
        return self._past_bytes + sum(each.received_bytes for each in (self._source, self._next) if each is not None)

    def begin(self, grant: PublishAnswer, within_s: float) -> None:
        """The name is granted: ask for the stream. It is missed if nothing of it has come after a while."""
        self.grant = grant
        self._first_by = self._loop.call_later(within_s, self._give_up)
        self._dial()

    def watched(self, *, is_watched: bool) -> None:
        """Whether anybody watches has changed."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not is_watched and not self.is_over:
            self._idle = self._loop.call_later(self.origin.idle_s, self._end_idle)

    def drop(self, reason: str) -> None:
        """It is over here: whoever says so has dealt with the stream and its name."""
        if self.is_over:
            return
        self.is_over = True
        for timer in (self._retry, self._first_by, self._idle):
            if timer is not None:
                timer.cancel()
        for connection in (self._source, self._next):
            if connection is not None:
                connection.end(reason)

    # Its ends.

    def _end_idle(self) -> None:
        self._idle = None
        self._host.end(self, self._publisher, IDLE, has_grace=False)

    def _give_up(self) -> None:
        self._first_by = None
        if self.stream is None:
            self._host.miss(self, self._last_failure)

    # Tries.

    def _dial(self) -> None:
        self._retry = None
        self._tries += 1
        self._opened += 1
        self._next = self._host.open(self, self._address, self)

    def _retry_later(self) -> None:
        if self._retry is None and self._next is None and not self.is_over:
            pause_s = min(FIRST_PAUSE_S * 2.0 ** min(self._tries, 10), LONGEST_PAUSE_S)
            self._retry = self._loop.call_later(pause_s, self._dial)

    @property
    def _is_moving(self) -> bool:
        """Whether another connection is to bring it soon."""
        return self._next is not None or self._retry is not None

    def _move(self, tc_url: str | None) -> None:
        """The origin asks its clients to come back, here or elsewhere."""
        if self._is_moving:
            return
        self._address = moved_to(self._address, tc_url)
        due = max(self._loop.now, self._moved_at + _MOVES_APART_S)
        self._moved_at = due
        self._retry = self._loop.call_at(due, self._dial)

    # What connections tell.

    def on_ready(self, connection: Source) -> None:
        """The origin says that it plays. Some say so whether or not they have the stream."""

    def on_room(self, connection: Source) -> None:
        """There is nothing to send."""

    def on_bug(self, error: Exception) -> None:
        """An error of ours; the connection is closed next."""
        self._host.bug(error)

    def on_event(self, connection: Source, event: Event) -> None:
        """Deal with what the origin sends."""
        if self.is_over:
            return
        match event:
            case MediaReceived():
                type_id, _, timestamp_ms, payload = event
                stream = self._stream_of(connection)
                if stream is not None:
                    stream.take_media(type_id, timestamp_ms, payload, self._loop.now)
            case DataReceived() if event.name not in _TO_PLAYERS:
                stream = self._stream_of(connection)
                if stream is not None:
                    stream.take_data(event.timestamp_ms, event.payload, self._loop.now)
            case DataCleared() if connection is self._source and self.stream is not None:
                self.stream.clear_metadata()
            case StreamEnded() if connection is self._source and self._is_moving:
                # Its publisher was asked to come back as well, and has left first.
                connection.end(ENDED)
            case StreamEnded() if connection is self._source:
                self._host.end(self, self._publisher, ENDED, has_grace=False)
            case StreamEnded():
                connection.close(Failure(ENDED, is_refusal=True))
            case ReconnectRequested() if connection is self._source:
                self._move(event.tc_url)
            case ReconnectRequested() if connection is self._next:
                # It brings nothing yet, so there is nothing to be kept until another one does.
                self._next = None
                connection.end("it asks its clients to come back")
                self._move(event.tc_url)
            case _:
                pass

    def on_closed(self, connection: Source, failure: Failure) -> None:
        """A connection is over."""
        if self.is_over:
            return
        self._past_bytes += connection.received_bytes
        if connection is self._next:
            self._next = None
            self._on_failed(failure)
        elif connection is self._source:
            publisher, self._source, self._publisher = self._publisher, None, None
            if self._loop.now - self._brings_since >= _SETTLED_S:
                self._tries = 0
            self._host.lost(self, failure.reason)
            self._host.end(self, publisher, failure.reason, has_grace=True)
            self._retry_later()

    def _on_failed(self, failure: Failure) -> None:
        self._last_failure = failure
        if self.stream is None and failure.is_refusal:
            self._host.miss(self, failure)
            return
        self._host.lost(self, failure.reason)
        # Where it was sent may be no place for long.
        self._address = self.origin.address
        self._retry_later()

    def _stream_of(self, connection: Source) -> LiveStream | None:
        """The stream that a connection's messages are for: with the first of them it is the one that brings it."""
        if connection is self._source:
            return self.stream
        grant = self.grant
        if connection is not self._next or grant is None:
            return None
        before, publisher = self._source, self._publisher
        self._source, self._next = connection, None
        self._brings_since = self._loop.now
        if self._first_by is not None:
            self._first_by.cancel()
            self._first_by = None
        if publisher is not None and self.stream is not None:
            self._host.stop(publisher, self.stream, MOVED)
        if before is not None:
            before.end(MOVED)
        name = f"{self.id}.{self._opened}"
        self._publisher = PulledPublisher(name, connection, self.origin.shown, self._loop.now)
        self.stream = self._host.begin(self, grant, self._publisher)
        return self.stream
