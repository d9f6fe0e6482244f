"""Once a second: deadlines of peers, of viewers, and of streams without a publisher.

Owns which of them are overdue and what they are told. Nothing here is urgent, so one pass a second serves all.
"""

from penstock.serve.peer import Peer
from penstock.serve.station import Station
from penstock.serve.viewer import Viewer

SLOW_VIEWER = "no whole message delivered"
"""How the reason begins for which a slow viewer is closed."""

_PINGS_LEFT_OUT = 6
"""One of so many pings goes to a peer that was heard of anyway."""


class Sweeper:
    """Looks after whoever keeps us waiting."""

    def __init__(self, station: Station) -> None:
        self._station = station

    def sweep(self) -> None:
        """One pass."""
        station = self._station
        now = station.reactor.now
        for peer in list(station.peers.values()):
            self._sweep_peer(peer, now)
        for channel in list(station.channels.values()):
            channel.seat_waiting(now)
        for stream in station.hub.expired(now):
            station.end_stream(station.channels[stream.key])
        station.playing.turn_away_late(now)
        station.observer.second_passed(station)

    def _sweep_peer(self, peer: Peer, now: float) -> None:
        settings = self._station.settings
        if peer.handshaken_at is None:
            if now - peer.opened_at >= settings.handshake_deadline_s:
                peer.close(f"handshake not finished in {settings.handshake_deadline_s:g} s")
        elif peer.connected_at is None:
            if now - peer.opened_at >= settings.connect_deadline_s:
                peer.close(f"no connect within {settings.connect_deadline_s:g} s")
        elif now - peer.heard_at >= settings.silent_peer_s:
            peer.close(f"nothing heard for {settings.silent_peer_s:g} s")
        elif peer.reply_stalled_since is not None and now - peer.reply_stalled_since >= settings.stalled_reply_s:
            peer.close(f"answers not read for {settings.stalled_reply_s:g} s")
        elif not (peer.publications and self._sends_too_much(peer, now)):
            # One who sends is alive; it is pinged now and then all the same, to know how far away it is.
            since_ping_s = now - peer.pinged_at
            is_quiet = now - peer.heard_at >= settings.ping_interval_s
            if since_ping_s >= settings.ping_interval_s * (1 if is_quiet else _PINGS_LEFT_OUT):
                self._station.ping(peer)
            elif peer.viewers:
                self._station.update_gathering(peer)
            for viewer in list(peer.viewers.values()):
                self._sweep_viewer(viewer, now)

    def _sends_too_much(self, peer: Peer, now: float) -> bool:
        settings, rate = self._station.settings, peer.measure(now)
        if rate.bits > settings.max_publish_bps:
            limit, reason = "publish bandwidth", f"more than {settings.max_publish_bps} bit/s published"
        elif rate.messages > settings.max_publish_messages_per_s:
            limit = "publish messages"
            reason = f"more than {settings.max_publish_messages_per_s} messages a second published"
        else:
            return False
        self._station.observer.limit_hit(limit, f"{peer.address} sends too fast")
        peer.close(reason)
        return True

    def _sweep_viewer(self, viewer: Viewer, now: float) -> None:
        if viewer.cursor is None or viewer.is_in_step:
            viewer.progressed_at = now
            return
        slow_viewer_s = self._station.settings.slow_viewer_s
        stalled_s = now - viewer.progressed_at
        if stalled_s >= slow_viewer_s:
            viewer.peer.close(f"{SLOW_VIEWER} in {slow_viewer_s:g} s")
        elif stalled_s >= slow_viewer_s / 2 and not viewer.is_warned:
            viewer.is_warned = True
            self._station.observer.viewer_stalled(viewer, stalled_s)
