"""Once a second: deadlines of connections, of viewers, and of streams without a publisher.

Owns which of them are overdue and what they are told. Nothing here is urgent, so one pass a second serves all.
"""

from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.viewer import Viewer

SLOW_VIEWER = "no whole message delivered"
"""How the reason begins for which a slow viewer is closed."""

_PINGS_LEFT_OUT = 6
"""One of so many pings goes to a connection that was heard of anyway."""


class Reaper:
    """Looks after whoever keeps us waiting."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def sweep(self) -> None:
        """One pass."""
        broker = self._broker
        now = broker.reactor.now
        for connection in list(broker.connections.values()):
            self._sweep_peer(connection, now)
        for live_stream in list(broker.live_streams.values()):
            live_stream.seat_waiting(now)
        for stream in broker.hub.expired(now):
            broker.end_stream(broker.live_streams[stream.key])
        broker.playing.turn_away_late(now)
        broker.observer.second_passed(now)

    def _sweep_peer(self, connection: RtmpConnection, now: float) -> None:
        settings = self._broker.settings
        if connection.handshaken_at is None:
            if now - connection.opened_at >= settings.handshake_deadline_s:
                connection.close(f"handshake not finished in {settings.handshake_deadline_s:g} s")
        elif connection.connected_at is None:
            if now - connection.opened_at >= settings.connect_deadline_s:
                connection.close(f"no connect within {settings.connect_deadline_s:g} s")
        elif now - connection.heard_at >= settings.silent_peer_s:
            connection.close(f"nothing heard for {settings.silent_peer_s:g} s")
        elif (
            connection.reply_stalled_since is not None
            and now - connection.reply_stalled_since >= settings.stalled_reply_s
        ):
            connection.close(f"answers not read for {settings.stalled_reply_s:g} s")
        elif not (connection.publications and self._sends_too_much(connection, now)):
            # One who sends is alive; it is pinged now and then all the same, to know how far away it is.
            since_ping_s = now - connection.pinged_at
            is_quiet = now - connection.heard_at >= settings.ping_interval_s
            if since_ping_s >= settings.ping_interval_s * (1 if is_quiet else _PINGS_LEFT_OUT):
                self._broker.ping(connection)
            elif connection.viewers:
                self._broker.update_gathering(connection)
            for viewer in list(connection.viewers.values()):
                self._sweep_viewer(viewer, now)

    def _sends_too_much(self, connection: RtmpConnection, now: float) -> bool:
        settings, rate = self._broker.settings, connection.measure(now)
        if rate.bits > settings.max_publish_bps:
            limit, reason = "publish bandwidth", f"more than {settings.max_publish_bps} bit/s published"
        elif rate.messages > settings.max_publish_messages_per_s:
            limit = "publish messages"
            reason = f"more than {settings.max_publish_messages_per_s} messages a second published"
        else:
            return False
        self._broker.observer.limit_hit(limit, f"{connection.address} sends too fast")
        connection.close(reason)
        return True

    def _sweep_viewer(self, viewer: Viewer, now: float) -> None:
        if viewer.cursor is None or viewer.is_in_step:
            viewer.progressed_at = now
            return
        slow_viewer_s = self._broker.settings.slow_viewer_s
        stalled_s = now - viewer.progressed_at
        if stalled_s >= slow_viewer_s:
            viewer.connection.close(f"{SLOW_VIEWER} in {slow_viewer_s:g} s")
        elif stalled_s >= slow_viewer_s / 2 and not viewer.is_warned:
            viewer.is_warned = True
            self._broker.observer.viewer_stalled(viewer, stalled_s)
