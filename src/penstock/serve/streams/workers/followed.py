"""Streams of other workers that are watched here.

Owns where each of them is followed, and what its news lead to. It is a live stream here too, with a log that is only
read; when its worker changes or is lost, its viewers stay and wait for it to go on.
"""

from collections.abc import Callable, Iterator, Mapping

from penstock.control.messages import key_of, name_of
from penstock.errors import MalformedInput
from penstock.logs import OncePerSecond, get_logger
from penstock.relay.followed_log import FollowedLog
from penstock.relay.following import Watching
from penstock.relay.follows import StreamAbsent, StreamChanged, StreamOpened
from penstock.relay.readable_log import Flush
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.workers.peer import Peer, StreamKeeper


class _Place:
    """Where a stream is followed."""

    __slots__ = ("epoch", "is_asked", "is_over", "number", "owner", "publication", "was_told")

    def __init__(self, owner: int, epoch: int) -> None:
        self.owner = owner
        self.epoch = epoch
        self.is_asked = False
        """Whether its owner has yet to answer that it can be followed there."""
        self.is_over = False
        """Whether the supervisor said so meanwhile."""
        self.number: int | None = None
        """On the link to its owner; None while it is not told of."""
        self.publication: int | None = None
        """The last one that was heard of."""
        self.was_told = False
        """Whether it was followed already, over a link that ended: by its epoch it is the same log."""


class Followed:
    """What is followed in other workers."""

    def __init__(
        self,
        keeper: StreamKeeper,
        peers: Mapping[int, Peer],
        show: Callable[[list[tuple[LiveStream, Flush]]], None],
        give_up: Callable[[Peer, str], None],
    ) -> None:
        """`show`: sends what became visible to those who watch it here. `give_up`: ends a link that told nonsense."""
        self._keeper = keeper
        self._peers = peers
        self._show = show
        self._give_up = give_up
        self._places: dict[str, _Place] = {}
        self._changes: dict[LiveStream, list[StreamChanged]] = {}
        """News that came in this round of events."""
        self._recounted: set[str] = set()
        self.resumes = 0
        """How often messages were missing because a link was too slow, over all links."""
        self._warnings = OncePerSecond(keeper.loop.clock)

    def __len__(self) -> int:
        return len(self._places)

    def follow(self, key: str, owner: int, epoch: int) -> None:
        """A stream is to be followed in the worker that has it."""
        place = self._places.get(key)
        if place is not None and place.owner == owner:
            if place.number is not None and not place.is_over:
                # Its publisher came back to where it was: the log that is followed goes on, and tells of it itself.
                place.epoch = epoch
            if place.epoch == epoch:
                return
        stream = self._keeper.streams.get(key)
        if place is not None and place.is_over and stream is not None:
            # Another one has begun under its name, with a time of its own.
            self._keeper.end_stream(stream)
        self.forget(key)
        place = self._places[key] = _Place(owner, epoch)
        peer = self._peers.get(owner)
        if peer is not None:
            _ask(peer, key, place)

    def forget(self, key: str) -> None:
        """A stream is not watched here any more, is over, or goes on here. Its log is for the stream to close."""
        place = self._places.pop(key, None)
        if place is not None and place.number is not None:
            self._peers[place.owner].follows.unfollow(place.number)

    def over(self, key: str, epoch: int) -> None:
        """The supervisor says that a stream is over: it counts where no link tells of the stream."""
        place = self._places.get(key)
        if place is not None and (place.number is not None or place.epoch > epoch):
            place.is_over = place.is_over or place.epoch == epoch
            return
        if place is not None and place.is_asked:
            # It may have been over before it could be followed, and its owner still has what it was.
            place.is_over = True
            return
        self._places.pop(key, None)
        stream = self._keeper.streams.get(key)
        if stream is not None and stream.epoch is None:
            self._keeper.end_stream(stream)

    def viewers_changed(self, key: str) -> None:
        """Somebody came or went who watches a stream of another worker."""
        if key in self._places:
            self._recounted.add(key)

    def finish_round(self) -> None:
        """At the end of a round of events: show what was announced, and tell how many watch."""
        if self._changes:
            self._show_changes()
        if self._recounted:
            self._recount()

    def _recount(self) -> None:
        recounted, self._recounted = self._recounted, set()
        for key in recounted:
            place, stream = self._places.get(key), self._keeper.streams.get(key)
            if place is not None and place.number is not None and stream is not None:
                self._peers[place.owner].link.send(Watching(place.number, stream.viewers_here, stream.packaged_ms))

    # Links that come and go.

    def ask_all(self, peer: Peer) -> None:
        """There is a link to a worker: what it has is followed over it."""
        for key, place in self._places.items():
            if place.owner == peer.number:
                _ask(peer, key, place)

    def show_rest(self) -> None:
        """A link is about to end: what it had told is here, and comes before where its streams go on."""
        if self._changes:
            self._show_changes()

    def lose(self, peer: Peer) -> None:
        """A link has ended: its streams wait to be told of anew, or to go on elsewhere."""
        for key, place in list(self._places.items()):
            if place.owner != peer.number:
                continue
            place.is_asked = False
            if place.is_over:
                self.over(key, place.epoch)
            elif place.number is not None:
                place.number = place.publication = None
                place.was_told = True
                stream = self._keeper.streams.get(key)
                if stream is not None:
                    stream.lose_elsewhere()
                    self._keeper.registry.last_seen(key, place.epoch, stream.continuation)

    # What comes over a link.

    def on_event(self, peer: Peer, event: StreamOpened | StreamAbsent | StreamChanged) -> None:
        """Deal with what a worker told of one of its streams."""
        match event:
            case StreamOpened():
                self._on_opened(peer, event)
            case StreamChanged():
                stream = self._keeper.streams.get(key_of(event.stream.name))
                if stream is not None and stream.log is event.stream.log:
                    self._changes.setdefault(stream, []).append(event)
                else:
                    event.pass_over()
            case StreamAbsent():
                self._on_absent(peer, event)

    def _on_absent(self, peer: Peer, absent: StreamAbsent) -> None:
        """It is on its way elsewhere, or over: the registry tells, or has told already."""
        key = key_of(absent.name)
        place = self._places.get(key)
        if place is not None and (place.owner, place.epoch) == (peer.number, absent.epoch):
            place.is_asked = False
            if place.is_over:
                self.over(key, place.epoch)
            else:
                del self._places[key]

    def _on_opened(self, peer: Peer, opened: StreamOpened) -> None:
        key = key_of(opened.name)
        place = self._places.get(key)
        if place is None or (place.owner, place.epoch) != (peer.number, opened.epoch):
            peer.follows.unfollow(opened.number)
            opened.log.close()
            return
        place.number = opened.number
        place.is_asked = False
        stream = self._keeper.mirror(key, opened.log, is_same=place.was_told)
        if stream is None:
            self.forget(key)
            opened.log.close()
        else:
            self._recounted.add(key)

    def _show_changes(self) -> None:
        """All streams together, segment by segment: most news are of one."""
        changes, self._changes = self._changes, {}
        left = [(stream, self._flushes(stream, news)) for stream, news in changes.items()]
        while shown := [(stream, flush) for stream, flushes in left if (flush := next(flushes, None)) is not None]:
            self._show(shown)
            more = {stream for stream, _ in shown}
            left = [(stream, flushes) for stream, flushes in left if stream in more]
        for stream, news in changes.items():
            if stream.log is news[-1].stream.log:
                self._settle(stream)

    def _flushes(self, stream: LiveStream, news: list[StreamChanged]) -> Iterator[Flush]:
        """What nobody watches any more by now is applied to a log that was closed, and shows nothing."""
        for changed in news:
            if changed.is_gap:
                self._note_resume(stream.key)
                stream.break_step()
            try:
                yield from changed.apply()
            except MalformedInput as error:
                place = self._places.get(stream.key)
                peer = None if place is None else self._peers.get(place.owner)
                if peer is not None:
                    self._give_up(peer, str(error))

    def _note_resume(self, key: str) -> None:
        self.resumes += 1
        if (swallowed := self._warnings.admit()) is not None:
            place = self._places.get(key)
            owner = None if place is None else place.owner
            get_logger().warning("A worker lagged behind another and skipped", peer=owner, count=swallowed + 1)

    def _settle(self, stream: LiveStream) -> None:
        """What the news say of the publication."""
        now, log, place = self._keeper.loop.now, stream.log, self._places.get(stream.key)
        if place is None or not isinstance(log, FollowedLog):
            return
        stream.saw_media(now)
        known, place.publication = place.publication, log.publication
        if log.is_over:
            self._keeper.end_stream(stream)
        elif not log.is_live:
            stream.lose_elsewhere()
        elif known is None:
            stream.join_elsewhere(now)
        elif known != log.publication or not stream.is_published_elsewhere:
            stream.begin_elsewhere(now)


def _ask(peer: Peer, key: str, place: _Place) -> None:
    place.is_asked = True
    peer.follows.follow(name_of(key), place.epoch)
