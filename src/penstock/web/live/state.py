"""Everything that is open in all workers, as they told it.

Owns who told what, and the sums over viewers of a stream. Each worker is believed about its own: what it had is gone
with it. Knows no sockets and no clock, and asks nobody.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from penstock.control.live import Live, LiveConnection, LiveStreamState, LiveView
from penstock.web.live.pages import Page, Place, page_of_places

StreamKey = tuple[str, str]
"""App and stream."""


class OpenConnection(NamedTuple):
    """A connection, and the worker that has it."""

    value: LiveConnection
    worker: int


class OpenView(NamedTuple):
    """A view, and the worker that has it."""

    value: LiveView
    worker: int


class OpenStream(NamedTuple):
    """A stream, and the worker that has it."""

    value: LiveStreamState
    worker: int


class Audience:
    """Who watches a stream, in all workers."""

    __slots__ = ("by_protocol", "ended_bytes", "views", "watching_bytes")

    def __init__(self) -> None:
        self.views: dict[str, None] = {}
        """Their ids."""
        self.by_protocol: dict[str, int] = {}
        self.watching_bytes = 0
        self.ended_bytes = 0

    @property
    def sent_bytes(self) -> int:
        """What was sent to those who watch and to those who have left, since the stream is known here."""
        return self.watching_bytes + self.ended_bytes


_NOBODY: Final = Audience()
CONNECTION_SORTS: Final = frozenset({"conn_id", "peer_addr", "app", "opened_at", "received_bytes", "sent_bytes"})
VIEW_SORTS: Final = frozenset(
    {"view_id", "app", "stream", "peer_addr", "started_at", "watched_us", "sent_bytes", "lag_ms", "skips"}
)
STREAM_SORTS: Final = frozenset(
    {"app", "stream", "started_at", "bitrate_bps", "fps", "received_bytes", "sent_bytes", "viewers"}
)
"""What lists may be sorted by."""
_FIELDS: Final = {"started_at": "started_at_us", "opened_at": "opened_at_us"}


class LiveState:
    """The newest that workers told of everything that is open."""

    def __init__(self) -> None:
        self.connections: dict[str, OpenConnection] = {}
        self.views: dict[str, OpenView] = {}
        self.streams: dict[StreamKey, OpenStream] = {}
        self._told_streams: dict[StreamKey, dict[int, LiveStreamState]] = {}
        """By worker: while a stream moves, two of them tell of it."""
        self._audiences: dict[StreamKey, Audience] = {}
        self._unconfirmed: dict[int, _Unconfirmed] = {}
        """Of workers that tell everything anew: what they have not told yet."""
        self._whole: set[int] = set()

    @property
    def whole_workers(self) -> frozenset[int]:
        """Those that have told everything that is open there."""
        return frozenset(self._whole)

    def audience(self, app: str, stream: str) -> Audience:
        """Who watches a stream."""
        return self._audiences.get((app, stream), _NOBODY)

    @property
    def audiences(self) -> Mapping[StreamKey, Audience]:
        """Of every stream that is watched, or was while it is there."""
        return self._audiences

    # What workers tell.

    def receive(self, worker: int, live: Live) -> None:
        """A worker tells what has changed."""
        if live.is_reset:
            self._whole.discard(worker)
            self._unconfirmed[worker] = self._everything_of(worker)
        unconfirmed = self._unconfirmed.get(worker)
        if unconfirmed is not None:
            unconfirmed.confirm(live)
        for stream in live.streams:
            self._put_stream(worker, stream)
        for connection in live.connections:
            self.connections[connection.conn_id] = OpenConnection(connection, worker)
        for view in live.views:
            self._put_view(worker, view)
        for conn_id in live.gone_connections:
            self.connections.pop(conn_id, None)
        for view_id in live.gone_views:
            self._drop_view(view_id)
        for key in live.gone_streams:
            self._drop_stream(worker, key)
        if live.is_whole:
            self._whole.add(worker)
            self._drop(worker, self._unconfirmed.pop(worker, None))

    def worker_lost(self, worker: int) -> None:
        """A worker is gone, and all that it had."""
        self._unconfirmed.pop(worker, None)
        self._whole.discard(worker)
        self._drop(worker, self._everything_of(worker))

    def _everything_of(self, worker: int) -> "_Unconfirmed":
        return _Unconfirmed(
            {conn_id for conn_id, (_, by) in self.connections.items() if by == worker},
            {view_id for view_id, (_, by) in self.views.items() if by == worker},
            {key for key, told in self._told_streams.items() if worker in told},
        )

    def _drop(self, worker: int, gone: "_Unconfirmed | None") -> None:
        if gone is None:
            return
        for conn_id in gone.connections:
            self.connections.pop(conn_id, None)
        for view_id in gone.views:
            self._drop_view(view_id)
        for key in gone.streams:
            self._drop_stream(worker, key)

    def _put_stream(self, worker: int, stream: LiveStreamState) -> None:
        key = stream.app, stream.stream
        self._told_streams.setdefault(key, {})[worker] = stream
        self._choose(key)

    def _drop_stream(self, worker: int, key: StreamKey) -> None:
        told = self._told_streams.get(key)
        if told is None or told.pop(worker, None) is None:
            return
        if told:
            self._choose(key)
        else:
            del self._told_streams[key], self.streams[key]
            self._forget_audience(key)

    def _choose(self, key: StreamKey) -> None:
        """Whoever has a publisher has the stream; of two, the one that began last."""
        told = self._told_streams[key]
        worker = max(told, key=lambda each: (told[each].publisher is not None, told[each].started_at_us, each))
        self.streams[key] = OpenStream(told[worker], worker)

    def _put_view(self, worker: int, view: LiveView) -> None:
        key = view.app, view.stream
        audience = self._audiences.get(key)
        if audience is None:
            audience = self._audiences[key] = Audience()
        known = self.views.get(view.view_id)
        self.views[view.view_id] = OpenView(view, worker)
        if known is None:
            audience.views[view.view_id] = None
            audience.by_protocol[view.protocol] = audience.by_protocol.get(view.protocol, 0) + 1
            audience.watching_bytes += view.sent_bytes
        else:
            audience.watching_bytes += view.sent_bytes - known.value.sent_bytes

    def _drop_view(self, view_id: str) -> None:
        known = self.views.pop(view_id, None)
        if known is None:
            return
        view = known.value
        key = view.app, view.stream
        audience = self._audiences[key]
        del audience.views[view_id]
        audience.by_protocol[view.protocol] -= 1
        if not audience.by_protocol[view.protocol]:
            del audience.by_protocol[view.protocol]
        audience.watching_bytes -= view.sent_bytes
        audience.ended_bytes += view.sent_bytes
        self._forget_audience(key)

    def _forget_audience(self, key: StreamKey) -> None:
        """What was sent of a stream counts until it is over and nobody watches the rest."""
        audience = self._audiences.get(key)
        if audience is not None and key not in self._told_streams and not audience.views:
            del self._audiences[key]

    # Lists. They may be sorted by some of their fields, with a minus in front to begin with the largest; an unknown
    # one, and a cursor of another list, raise ValueError.

    def page_of_connections(
        self, limit: int, cursor: str | None = None, *, app: str | None = None, sort: str = "conn_id"
    ) -> Page[OpenConnection]:
        """Open connections."""
        place_of = _place_by(sort, CONNECTION_SORTS, "conn_id")
        found = [value for value, _ in self.connections.values() if app in (None, value.app)]
        places, next_cursor = _page_of(map(place_of, found), limit, cursor, sort)
        return Page([self.connections[conn_id] for _, conn_id in places], next_cursor)

    def page_of_views(
        self,
        limit: int,
        cursor: str | None = None,
        *,
        app: str | None = None,
        stream: str | None = None,
        sort: str = "view_id",
    ) -> Page[OpenView]:
        """Viewers that were let in."""
        place_of = _place_by(sort, VIEW_SORTS, "view_id")
        places, next_cursor = _page_of(map(place_of, self._views_of(app, stream)), limit, cursor, sort)
        return Page([self.views[view_id] for _, view_id in places], next_cursor)

    def _views_of(self, app: str | None, stream: str | None) -> list[LiveView]:
        if app is not None and stream is not None:
            return [self.views[view_id].value for view_id in self.audience(app, stream).views]
        return [
            value for value, _ in self.views.values() if app in (None, value.app) and stream in (None, value.stream)
        ]

    def page_of_streams(
        self,
        limit: int,
        cursor: str | None = None,
        *,
        app: str | None = None,
        stream: str | None = None,
        sort: str = "app",
    ) -> Page[OpenStream]:
        """Streams that are published or wait for their publisher."""
        name = _checked(sort, STREAM_SORTS)
        found = {
            # A slash may be in either name, a line end in neither.
            f"{key[0]}\n{key[1]}": key
            for key in self.streams
            if app in (None, key[0]) and stream in (None, key[1])
        }
        values = ((self._value_of_stream(name, key), text) for text, key in found.items())
        places, next_cursor = _page_of(values, limit, cursor, sort)
        return Page([self.streams[found[text]] for _, text in places], next_cursor)

    def _value_of_stream(self, name: str, key: StreamKey) -> Any:
        if name == "viewers":
            return len(self.audience(*key).views)
        if name == "sent_bytes":
            return self.audience(*key).sent_bytes
        return getattr(self.streams[key].value, _FIELDS.get(name, name))


class _Unconfirmed(NamedTuple):
    """What a worker had told before it began anew."""

    connections: set[str]
    views: set[str]
    streams: set[StreamKey]

    def confirm(self, live: Live) -> None:
        """It is still there."""
        self.connections.difference_update(each.conn_id for each in live.connections)
        self.views.difference_update(each.view_id for each in live.views)
        self.streams.difference_update((each.app, each.stream) for each in live.streams)


def _checked(sort: str, allowed: frozenset[str]) -> str:
    name = sort.removeprefix("-")
    if name not in allowed:
        raise ValueError(f"a list cannot be sorted by {name!r}, but by {', '.join(sorted(allowed))}")
    return name


def _place_by(sort: str, allowed: frozenset[str], id_field: str) -> Callable[[Any], Place]:
    name = _checked(sort, allowed)
    return attrgetter(_FIELDS.get(name, name), id_field)


def _page_of(places: Iterable[Place], limit: int, cursor: str | None, sort: str) -> Page[Place]:
    return page_of_places(list(places), limit, cursor, is_descending=sort.startswith("-"))
