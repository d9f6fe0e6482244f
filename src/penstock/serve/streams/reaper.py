"""The reaper: once a second, whoever keeps us waiting or asks for too much.

Owns which streams, connections and viewers are past a deadline and what they are told. A walk over all of them is cut
into slices, so that ten thousand do not hold up the loop.
"""

from collections.abc import Iterator
from typing import Final

from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Loop, Turn
from penstock.serve.streams.access.gatekeeper import BLOCKED
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.viewer import Viewer

SLOW_VIEWER: Final = "no whole message delivered"
"""How the reason begins for which a slow viewer is closed."""

INTERVAL_S: Final = 1.0
TOO_FAST_S: Final = 5.0
"""For how long a peer may be slowed down again and again before it is closed."""
_PINGS_LEFT_OUT: Final = 6
"""One of so many pings goes to a peer that was heard of anyway."""
_PER_LOOK: Final = 32
"""Streams or connections between two looks at the clock."""


class Reaper:
    """Looks after whoever keeps us waiting."""

    def __init__(self, broker: Broker, loop: Loop) -> None:
        self._broker = broker
        self._loop = loop
        self._turn = Turn(self._go_on)
        self._left: Iterator[LiveStream | MediaConnection] = iter(())

    def start(self) -> None:
        """Come round once a second from now on."""
        self._loop.call_later(INTERVAL_S, self._begin)

    def _begin(self) -> None:
        self.start()
        broker, now = self._broker, self._loop.now
        broker.observer.second_passed(now)
        # A walk that has not come to its end yet goes on where it is.
        if not self._turn.is_queued:
            self._left = iter([*broker.streams.values(), *broker.connections.values()])
            self._loop.queue(self._turn)

    def _go_on(self, _events: int) -> None:
        now = self._loop.now
        for number, each in enumerate(self._left):
            if isinstance(each, LiveStream):
                self._broker.look_after(each, now)
            else:
                self.look_at(each, now)
            if number % _PER_LOOK == _PER_LOOK - 1 and self._loop.clock() >= self._loop.turn_ends_at:
                self._loop.queue(self._turn)
                return

    def look_at(self, connection: MediaConnection, now: float) -> None:
        """Close a connection that is past a deadline; else ping it if that is due."""
        if connection.is_closed:
            return
        if self._broker.gatekeeper.is_blocked(connection):
            self._broker.dismiss(connection, BLOCKED)
            return
        reason = self._overdue(connection, now)
        if reason is not None:
            connection.close(reason)
            return
        if isinstance(connection, RtmpConnection):
            if connection.connected_at is None:
                return
            self._keep_alive(connection, now)
        for viewer in list(connection.plays.values()):
            if isinstance(viewer, Viewer):
                self._broker.playing.look_after(viewer, now)
                self._look_at_viewer(viewer, now)

    def _keep_alive(self, connection: RtmpConnection, now: float) -> None:
        # One who sends is alive; it is pinged now and then all the same, to know how far away it is.
        interval_s = self._broker.settings.ping_interval_s
        is_quiet = now - connection.heard_at >= interval_s
        if now - connection.pinged_at >= interval_s * (1 if is_quiet else _PINGS_LEFT_OUT):
            self._broker.ping(connection)
        else:
            self._broker.read_paces.update(connection)

    def _overdue(self, connection: MediaConnection, now: float) -> str | None:
        settings = self._broker.settings
        stalled_since = connection.queue.stalled_since
        if stalled_since is not None and now - stalled_since >= settings.stalled_reply_s:
            return f"answers not read for {settings.stalled_reply_s:g} s"
        return self._overdue_by_protocol(connection, now) if isinstance(connection, RtmpConnection) else None

    def _overdue_by_protocol(self, connection: RtmpConnection, now: float) -> str | None:
        settings = self._broker.settings
        if connection.handshaken_at is None:
            if now - connection.opened_at >= settings.handshake_deadline_s:
                return f"handshake not finished in {settings.handshake_deadline_s:g} s"
            return None
        if connection.connected_at is None and now - connection.opened_at >= settings.connect_deadline_s:
            return f"no connect within {settings.connect_deadline_s:g} s"
        if now - connection.heard_at >= settings.silent_peer_s:
            return f"nothing heard for {settings.silent_peer_s:g} s"
        half_since = connection.session.oldest_half_message_at
        if half_since is not None and now - half_since >= settings.half_message_deadline_s:
            return f"a message not finished in {settings.half_message_deadline_s:g} s"
        limit = connection.rates.limit
        if limit is not None and connection.rates.too_fast_for_s(now) >= TOO_FAST_S:
            self._broker.observer.limit_hit(limit, f"{connection.address} sends too fast")
            return f"too fast for {TOO_FAST_S:g} s: {limit}"
        return None

    def _look_at_viewer(self, viewer: Viewer, now: float) -> None:
        # A filtered one has had everything when its cursor has, since it is never in step with others.
        if viewer.cursor is None or viewer.is_in_step or viewer.cursor.is_in_step:
            viewer.progressed_at = now
            return
        slow_viewer_s = self._broker.settings.slow_viewer_s
        stalled_s = now - viewer.progressed_at
        if stalled_s >= slow_viewer_s:
            viewer.connection.close(f"{SLOW_VIEWER} in {slow_viewer_s:g} s")
        elif stalled_s >= slow_viewer_s / 2 and not viewer.is_warned:
            viewer.is_warned = True
            self._broker.observer.viewer_stalled(viewer, stalled_s)
