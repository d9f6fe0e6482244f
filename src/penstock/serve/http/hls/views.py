"""Views without a connection: whoever asks for a stream again and again is a viewer like any other.

Owns what stands for the connection of such a viewer, so that streams, limits, orders and telemetry need not know the
difference, and how long it lasts: until nothing was asked for during three target durations. Nothing is ever sent by
the stream; what is asked for is counted as sent when it is answered.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from penstock.errors import MisuseError
from penstock.protocol.status import StatusCode
from penstock.relay.segment import SegmentBuffer
from penstock.serve.coalesced_reads import Pace
from penstock.serve.connections.media_connection import MediaSink
from penstock.serve.connections.send_queue import MediaSource, SendQueue
from penstock.serve.reactor import Loop, Turn
from penstock.serve.streams.access.grant import Grant
from penstock.serve.streams.viewer import Viewer

PROTOCOL: Final = "hls"
STREAM_ID: Final = 1
_NO_DESCRIPTOR: Final = -1


class Caller(NamedTuple):
    """Who asks for a stream, as far as a request shows that was not asked about."""

    key: str
    ip: str
    client: str


class ViewOwner(Protocol):
    """Whoever keeps views."""

    @property
    def now(self) -> float:
        """By the clock of the loop."""

    def on_first_media(self, view: "View") -> None:
        """It is answered with media for the first time."""

    def on_view_ready(self, view: "View", now: float) -> None:
        """Its stream is there, or has ended."""

    def on_view_refused(self, view: "View", code: StatusCode) -> None:
        """It comes to nothing."""

    def on_view_ended(self, view: "View") -> None:
        """Its stream is over."""

    def on_view_revoked(self, view: "View", reason: str) -> None:
        """It may not go on."""

    def on_view_closed(self, view: "View", reason: str) -> None:
        """The connection that it stands for is to be closed."""


class _Nowhere:
    """A transport of nothing."""

    descriptor = _NO_DESCRIPTOR
    can_send_files = False

    def receive(self, size: int) -> bytes | None:
        raise MisuseError(f"hls: {size} bytes are read of a view")

    def send(self, data: bytes | memoryview) -> int:
        raise MisuseError(f"hls: {len(data)} bytes are sent to a view")

    def send_from(self, buffer: SegmentBuffer, offset: int, size: int) -> int:
        raise MisuseError(f"hls: {size} bytes from {offset} of {buffer} are sent to a view")

    def flush(self) -> bool:
        return True

    def close(self) -> None:
        """There is nothing to close."""


class ViewConnection:
    """What stands for a connection. Never reads, sends or wakes up; in turns of the loop its view looks around."""

    def __init__(self, connection_id: str, view: "View", caller: Caller, *, address: str, app: str, loop: Loop) -> None:
        self.id = connection_id
        self.address = address
        self.app = app
        self.client = caller.client
        self.protocol = PROTOCOL
        self.descriptor = _NO_DESCRIPTOR
        self.can_send_files = False
        self.own_name: str | None = None
        self.dimensions: dict[str, str] = {}
        self.opened_at = self.heard_at = self.asked_at = loop.now
        self.round_trip_ms: int | None = None
        self.received_bytes = 0
        self.held_bytes = 0
        self.via: tuple[str, ...] = ()
        self.plays: dict[int, MediaSource] = {}
        self.queue = SendQueue(_Nowhere(), self.plays)
        self.is_closed = False
        self._view = view
        self._loop = loop
        self._turn = Turn(lambda _events: view.work(loop.now), is_background=True)

    @property
    def publications(self) -> Mapping[int, MediaSink]:
        """None."""
        return {}

    def request_turn(self) -> None:
        """There is something to do for it."""
        if not self.is_closed:
            self._loop.queue(self._turn)

    def want_write(self) -> None:
        """Never needed."""

    def send_now(self, data: bytes) -> int:  # noqa: ARG002
        """Nothing is sent past what is asked for."""
        return 0

    def charge(self, units: int) -> None:
        """What it costs is counted by its requests."""

    def set_pace(self, pace: Pace) -> None:
        """It is not read."""

    def close_soon(self, reason: str, within_s: float) -> None:  # noqa: ARG002
        """There is nothing to hear any more."""
        self.close(reason)

    def close(self, reason: str) -> None:
        """The end."""
        if not self.is_closed:
            self._view.owner.on_view_closed(self._view, reason)
            self.is_closed = True

    def tell_decided(self) -> None:
        """Whoever waits is answered when the stream is there."""

    def tell_play_begins(self, stream_id: int) -> None:
        """Its next answers say so."""

    def tell_play_refused(self, stream_id: int, text: str, code: StatusCode) -> None:  # noqa: ARG002
        """A play comes to nothing."""
        self._view.owner.on_view_refused(self._view, code)

    def tell_play_ended(self, stream_id: int) -> None:  # noqa: ARG002
        """The playlists say so."""
        self._view.owner.on_view_ended(self._view)

    def tell_play_revoked(self, stream_id: int, reason: str) -> None:  # noqa: ARG002
        """A play may not go on."""
        self._view.owner.on_view_revoked(self._view, reason)

    def tell_goodbye(self, text: str) -> None:
        """The server ends, and its streams before."""


class View(Viewer):
    """One view."""

    takes_log = False
    __slots__ = ("caller", "has_asked_for_playlist", "owner", "seen_at", "stand_in", "subject")

    def __init__(
        self,
        owner: ViewOwner,
        connection_id: str,
        caller: Caller,
        *,
        address: str,
        app: str,
        loop: Loop,
        own_name: str | None = None,
        dimensions: str | None = None,
        grant: Grant | None = None,
    ) -> None:
        self.owner = owner
        self.caller = caller
        self.subject = None if grant is None else grant.subject
        self.seen_at = loop.now
        """When it last asked for anything."""
        self.has_asked_for_playlist = False
        """Who has not is no viewer yet: connections of one player may be in several workers."""
        self.stand_in = ViewConnection(connection_id, self, caller, address=address, app=app, loop=loop)
        super().__init__(self.stand_in, STREAM_ID, caller.key, own_name, loop.now, dimensions=dimensions, grant=grant)

    def work(self, now: float) -> None:
        """Look around: it never has a place in the log."""
        if self.stream is not None:
            self.stream.unseat(self)
            self.owner.on_view_ready(self, now)

    def took(self, size: int, *, is_media: bool = True) -> None:
        """An answer goes out to it."""
        self.sent_base_bytes += size
        if is_media and self.first_frame_at is None and self.is_admitted:
            self.first_frame_at = self.owner.now
            self.owner.on_first_media(self)
