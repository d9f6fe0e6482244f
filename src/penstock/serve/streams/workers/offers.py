"""Streams of this worker that others follow.

Owns which stream is announced over which link, what its followers are told of its publications, and for how long one
that was short is kept for those who are about to ask.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from penstock.control.messages import key_of
from penstock.relay.announcer import AnnouncedStream
from penstock.relay.following import Follow, Watching
from penstock.relay.log import StreamLog
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.workers.peer import Peer, StreamKeeper

_LATE_FOLLOWER_S: Final = 1.0
"""Workers in which a stream is awaited ask for it some milliseconds after it has begun. One that was over by then is
kept for as long, so that those who waited there are sent all of it, as here."""


class Offers:
    """What other workers follow here."""

    def __init__(self, keeper: StreamKeeper, peers: Mapping[int, Peer]) -> None:
        self._keeper = keeper
        self._peers = peers
        self._just_ended: dict[str, tuple[int, LiveStream]] = {}
        """Streams of ours for late followers, with the epochs that they ended in."""

    def changed(self, stream: LiveStream) -> None:
        """A publication of ours began or was lost."""
        for announced in self._of(stream):
            if stream.publisher is None:
                announced.lose()
            else:
                announced.begin_anew()

    def ended(self, stream: LiveStream, epoch: int) -> None:
        """A stream of ours is over; told before its log is closed."""
        for announced in self._of(stream):
            announced.end()
        loop = self._keeper.loop
        if self._peers and loop.now - stream.began_at < _LATE_FOLLOWER_S:
            self._let_go(stream.key)
            self._just_ended[stream.key] = epoch, stream
            stream.is_kept = True
            loop.call_later(_LATE_FOLLOWER_S, partial(self._let_go, stream.key, epoch))

    def _let_go(self, key: str, epoch: int | None = None) -> None:
        """No more followers are waited for; an earlier stream of that name may have been let go of already."""
        kept = self._just_ended.get(key)
        if kept is not None and epoch in (None, kept[0]):
            del self._just_ended[key]
            kept[1].let_go()

    def left(self, stream: LiveStream) -> None:
        """A stream of ours goes on in another worker; those who follow it here will follow it there."""
        for announced in self._of(stream):
            announced.lose()
        stream.viewers_elsewhere.clear()

    def _of(self, stream: LiveStream) -> Iterator[AnnouncedStream]:
        for peer in self._peers.values():
            for offered, announced in peer.offered.values():
                if offered is stream:
                    yield announced

    # What one of them asks.

    def offer(self, peer: Peer, request: Follow) -> None:
        """A worker wants to follow a stream."""
        stream = self._wanted(request)
        if stream is None or not isinstance(stream.log, StreamLog):
            peer.announcer.refuse(request.name, request.epoch)
            return
        announced = peer.announcer.follow(request.name, request.epoch, stream.log, is_live=stream.is_live)
        peer.offered[announced.number] = (stream, announced)
        stream.listeners.append(announced)
        stream.viewers_elsewhere[peer.number] = 1
        self._keeper.watched_elsewhere(stream)
        if stream.is_over:
            announced.end()

    def _wanted(self, request: Follow) -> LiveStream | None:
        key = key_of(request.name)
        ended_in, ended = self._just_ended.get(key, (None, None))
        if ended_in == request.epoch:
            return ended
        stream = self._keeper.streams.get(key)
        return stream if stream is not None and stream.epoch == request.epoch else None

    def withdraw(self, peer: Peer, number: int) -> None:
        """A worker follows a stream no more."""
        peer.announcer.unfollow(number)
        self._unlisten(peer, *peer.offered.pop(number))

    def count(self, peer: Peer, watching: Watching) -> None:
        """How many watch a stream in another worker, and how much of it is kept for them."""
        stream, _ = peer.offered[watching.stream]
        stream.viewers_elsewhere[peer.number] = watching.viewers
        stream.keep_elsewhere(peer.number, watching.kept_ms)

    def lose(self, peer: Peer) -> None:
        """A link has ended."""
        for stream, announced in peer.offered.values():
            self._unlisten(peer, stream, announced)
        peer.announcer.close()

    def _unlisten(self, peer: Peer, stream: LiveStream, announced: AnnouncedStream) -> None:
        stream.listeners.remove(announced)
        stream.viewers_elsewhere.pop(peer.number, None)
        stream.keep_elsewhere(peer.number, 0)
        self._keeper.watched_elsewhere(stream)
