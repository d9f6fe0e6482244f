"""What is open in this worker and what happens there, told to web as it changes.

Owns what web does not know yet. Beginnings and ends go out within 50 ms, connections and views again every two seconds
at most, streams with their samples, facts in their order. Values are read when they are sent, a few at a time, so that
ten thousand viewers never hold up the loop.

Nothing waits for web. While it is away or does not keep up, what changed twice is told once, samples are left out, and
other facts are kept up to a bound. Where that is not enough, and for a web process that is new, everything that is open
is told anew, in slices.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from penstock.control.live import Live, LiveView
from penstock.facts import ClockStepped, Fact, StreamSample, ViewBeacon, ViewerSample
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.reactor import Reactor, Timer
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.publisher import Publisher
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.live_values import LiveValues
from penstock.serve.telemetry.meter import Meters
from penstock.serve.telemetry.sampling import SampleRing
from penstock.serve.telemetry.told_sessions import names_of

BATCH_S: Final = 0.05
SAMPLE_S: Final = 1.8
"""With the batch and the way to web, nothing there is older than two seconds."""
SLICE_VALUES: Final = 100
"""In one message: half a millisecond."""
_SLICE_PAUSE_S: Final = 0.005
_DUE_PER_SLICE: Final = 500
"""Only marked by the ring, which takes no time."""
MAX_GONE: Final = 10_000
"""What ended while web does not listen. With more of them it is told anew what is open."""
MAX_FACT_BYTES: Final = 1024 * 1024
_MESSAGE_FACT_BYTES: Final = 128 * 1024

_T = TypeVar("_T")


class WebPort(Protocol):
    """The way to web."""

    on_linked: list[Callable[[], None]]

    @property
    def is_open(self) -> bool:
        """Whether there is a web process."""

    @property
    def is_congested(self) -> bool:
        """Whether what can wait should; also while there is no web process."""

    def send(self, message: Live) -> bool:
        """False: there is no web process."""


class LiveFeed(Observer):
    """Keeps web told. To be among the observers before the facts': what ends is still named there when it is told."""

    def __init__(self, web: WebPort, values: LiveValues, meters: Meters, reactor: Reactor) -> None:
        self._web = web
        self._values = values
        self._meters = meters
        self._reactor = reactor
        self._connections: dict[str, MediaConnection] = {}
        self._views: dict[Viewer, None] = {}
        self._streams: dict[LiveStream, None] = {}
        self._by_name: dict[tuple[str, str], LiveStream] = {}
        # Dicts used as ordered sets: what web does not have the newest of.
        self._due_connections: dict[MediaConnection, None] = {}
        self._due_views: dict[Viewer, None] = {}
        self._due_streams: dict[LiveStream, None] = {}
        self._ended_views: deque[LiveView] = deque()
        self._gone_connections: deque[str] = deque()
        self._gone_streams: dict[tuple[str, str], None] = {}
        self._facts: deque[bytes] = deque()
        self._fact_bytes = 0
        self._lost_facts = 0
        self._is_anew = True
        """Whether everything has to be told, since web may know anything or nothing."""
        self._is_whole = False
        """Whether web has been told everything since then."""
        self._timer: Timer | None = None
        rings = (self._connection_due, self._view_due, self._stream_due)
        self._rings: list[SampleRing[Any]] = [SampleRing(reactor, due, SAMPLE_S, _DUE_PER_SLICE) for due in rings]
        self._sampled_connections, self._sampled_views, self._sampled_streams = self._rings
        web.on_linked.append(self._begin_anew)

    def viewer_of(self, view_id: str) -> Viewer | None:
        """Who watches under the name that web was told."""
        return next((viewer for viewer in self._views if self._values.view_id(viewer) == view_id), None)

    def on_fact(self, fact: Fact, line: bytes) -> None:
        """Facts tell something; with names of their own when the wall clock was set."""
        if isinstance(fact, ClockStepped):
            self._values.rename()
            self._begin_anew()
        if isinstance(fact, StreamSample | ViewBeacon | ViewerSample):
            if self._web.is_congested:
                return
            live_stream = self._by_name.get((fact.app, fact.stream)) if isinstance(fact, StreamSample) else None
            if live_stream is not None:
                self._due_streams[live_stream] = None
        self._facts.append(line[:-1])
        self._fact_bytes += len(line)
        while self._fact_bytes > MAX_FACT_BYTES:
            self._fact_bytes -= len(self._facts.popleft()) + 1
            self._lost_facts += 1
        self._tell_soon()

    # What the media path tells.

    def connection_opened(self, connection: MediaConnection) -> None:
        """A socket was accepted."""
        self._connections[connection.id] = connection
        self._sampled_connections.add(connection, self._reactor.now)
        self._connection_due(connection, 0.0)

    def connected(self, connection: MediaConnection) -> None:
        """Its app and its client are known."""
        self._connection_due(connection, 0.0)

    def connection_closed(self, connection: MediaConnection, reason: str) -> None:  # noqa: ARG002
        """A connection is gone."""
        if self._connections.pop(connection.id, None) is None:
            return
        self._sampled_connections.discard(connection)
        self._due_connections.pop(connection, None)
        self._gone_connections.append(self._values.conn_id(connection))
        self._tell_soon()

    def publish_started(self, publisher: Publisher, live_stream: LiveStream, publishing_type: str) -> None:  # noqa: ARG002
        """A publication began."""
        self._values.forget_publication(live_stream)
        name = names_of(live_stream.app_name, live_stream.key)
        self._streams[live_stream] = None
        self._by_name[name] = live_stream
        # It may have been over a moment ago, and web be told of the end by what is open now.
        self._gone_streams.pop(name, None)
        self._sampled_streams.add(live_stream, self._reactor.now)
        self.stream_changed(live_stream)

    def publish_stopped(self, publisher: Publisher, live_stream: LiveStream, reason: str) -> None:  # noqa: ARG002
        """A publication ended; the stream may wait for another one."""
        self.stream_changed(live_stream)

    def codecs_known(self, live_stream: LiveStream, text: str) -> None:  # noqa: ARG002
        """What a stream consists of."""
        self._values.codecs_known(live_stream)
        self.stream_changed(live_stream)

    def stream_changed(self, live_stream: LiveStream) -> None:
        """Something about a stream is new, such as whether it is recorded."""
        if live_stream in self._streams:
            self._due_streams[live_stream] = None
            self._tell_soon()

    def stream_left(self, live_stream: LiveStream) -> None:
        """A stream goes on in another worker."""
        self.stream_closed(live_stream)

    def stream_closed(self, live_stream: LiveStream) -> None:
        """A stream is over."""
        if self._streams.pop(live_stream, 0) == 0:
            return
        name = names_of(live_stream.app_name, live_stream.key)
        self._by_name.pop(name, None)
        self._sampled_streams.discard(live_stream)
        self._due_streams.pop(live_stream, None)
        self._values.forget(live_stream)
        self._gone_streams[name] = None
        self._tell_soon()

    def play_started(self, viewer: Viewer) -> None:
        """A viewer was let in."""
        self._views[viewer] = None
        self._sampled_views.add(viewer, self._reactor.now)
        self._view_due(viewer, 0.0)

    def play_stopped(self, viewer: Viewer, reason: str) -> None:  # noqa: ARG002
        """A viewer is gone, or its stream is. How it ended is told with its end: sums are exact."""
        if self._views.pop(viewer, 0) == 0:
            return
        self._sampled_views.discard(viewer)
        self._due_views.pop(viewer, None)
        last = self._values.view(viewer)
        if last is not None:
            self._ended_views.append(last)
        self._values.forget(viewer)
        self._tell_soon()

    def second_passed(self, now: float) -> None:  # noqa: ARG002
        """Go on with samples."""
        for ring in self._rings:
            ring.keep_going()

    def _connection_due(self, connection: MediaConnection, _now: float) -> None:
        self._due_connections[connection] = None
        self._tell_soon()

    def _view_due(self, viewer: Viewer, _now: float) -> None:
        self._due_views[viewer] = None
        self._tell_soon()

    def _stream_due(self, live_stream: LiveStream, now: float) -> None:
        if not self._values.is_sampled(live_stream):
            self._meters.of(live_stream).sample(now)
        self.stream_changed(live_stream)

    # What web is told.

    def _begin_anew(self) -> None:
        """Web knows nothing, or nothing that can be relied on."""
        self._is_anew = True
        self._tell_soon()

    def _tell_soon(self) -> None:
        if self._timer is None:
            self._timer = self._reactor.call_later(BATCH_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        if not self._web.is_open:
            # The next one is told everything, and on_linked says when.
            self._is_anew = True
            self._forget_ends()
            return
        if self._web.is_congested:
            if len(self._ended_views) + len(self._gone_connections) + len(self._gone_streams) > MAX_GONE:
                self._is_anew = True
                self._forget_ends()
            self._tell_soon()
            return
        self._send_some()
        if self._has_more:
            self._timer = self._reactor.call_later(_SLICE_PAUSE_S, self._tell)

    @property
    def _has_more(self) -> bool:
        return bool(self._due_connections or self._due_views or self._due_streams or self._ended_views or self._facts)

    def tell_rest(self) -> None:
        """The worker ends: tell what is left, as far as web takes it now."""
        if self._timer is not None:
            self._timer.cancel()
        while not self._web.is_congested and self._has_more:
            self._send_some()

    def _send_some(self) -> None:
        is_reset, self._is_anew = self._is_anew, False
        if is_reset:
            self._make_everything_due()
        self._web.send(self._next_message(is_reset=is_reset))

    def _next_message(self, *, is_reset: bool) -> Live:
        room = SLICE_VALUES
        streams = [self._values.stream(each) for each in _take(self._due_streams, room)]
        room -= len(streams)
        ended = [self._ended_views.popleft() for _ in range(min(room, len(self._ended_views)))]
        room -= len(ended)
        views = [view for each in _take(self._due_views, room) if (view := self._values.view(each)) is not None]
        room -= len(views)
        connections = [self._values.connection(each) for each in _take(self._due_connections, room)]
        gone_connections, gone_streams = list(self._gone_connections), list(self._gone_streams)
        self._gone_connections.clear()
        self._gone_streams.clear()
        if not (self._due_connections or self._due_views or self._due_streams or self._ended_views):
            self._is_whole = True
        lost_facts, self._lost_facts = self._lost_facts, 0
        return Live(
            is_reset=is_reset,
            connections=connections,
            views=[*ended, *views],
            streams=streams,
            gone_connections=gone_connections,
            gone_views=[view.view_id for view in ended],
            gone_streams=gone_streams,
            facts=self._take_facts(),
            is_whole=self._is_whole,
            lost_facts=lost_facts,
        )

    def _take_facts(self) -> list[bytes]:
        taken: list[bytes] = []
        size = 0
        while self._facts and size < _MESSAGE_FACT_BYTES:
            taken.append(self._facts.popleft())
            size += len(taken[-1]) + 1
        self._fact_bytes -= size
        return taken

    def _make_everything_due(self) -> None:
        self._is_whole = False
        self._due_connections = dict.fromkeys(self._connections.values())
        self._due_views = self._views.copy()
        self._due_streams = self._streams.copy()
        # What is not among them is gone.
        self._forget_ends()

    def _forget_ends(self) -> None:
        self._ended_views.clear()
        self._gone_connections.clear()
        self._gone_streams.clear()


def _take(due: dict[_T, None], most: int) -> list[_T]:
    """The first few of those that are due, which are not any more."""
    taken = list(islice(due, most))
    for each in taken:
        del due[each]
    return taken
