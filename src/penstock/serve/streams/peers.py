"""The other workers: streams of theirs that are watched here, and streams of ours that are watched there.

Owns the links between workers, which stream is followed where, and what the other side is told. A stream that another
worker has is a live stream here too, with a log that is only read; when its worker changes or is lost, its viewers stay
and wait for it to go on. Who has which name is the registry's matter.
"""

# Long because: both sides of following meet on one link, and end with it.

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol

import msgspec

from penstock.control.messages import key_of, name_of
from penstock.errors import MalformedInput
from penstock.logs import OncePerSecond, get_logger
from penstock.relay.announcer import AnnouncedStream, Announcer
from penstock.relay.followed_log import FollowedLog
from penstock.relay.following import (
    VERSION,
    Follow,
    Hello,
    Released,
    ToFollower,
    ToWriter,
    Unfollow,
    Watching,
    check_version,
)
from penstock.relay.follows import Follows, StreamAbsent, StreamChanged, StreamOpened
from penstock.relay.log import StreamLog
from penstock.relay.readable_log import Flush, FrameEncoders, LogLimits, ReadableLog
from penstock.serve.links.link import CONGESTED_FROM_BYTES, Link
from penstock.serve.reactor import Loop
from penstock.serve.sending.memfd import FollowedBuffer, read_only_copy
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.registry import Registry

_LATE_FOLLOWER_S: Final = 1.0
"""Workers in which a stream is awaited ask for it some milliseconds after it has begun. One that was over by then is
kept for as long, so that those who waited there are sent all of it, as here."""
_NEW_LINK_S: Final = 1.0
"""After a link had to be given up: whatever was short then may not be by now."""
_DECODER: Final[msgspec.msgpack.Decoder[ToWriter | ToFollower]] = msgspec.msgpack.Decoder(ToWriter | ToFollower)


class StreamKeeper(Protocol):
    """Whoever has the streams of this worker."""

    @property
    def loop(self) -> Loop: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def streams(self) -> Mapping[str, LiveStream]: ...

    def mirror(self, key: str, log: ReadableLog, *, is_same: bool) -> LiveStream | None:
        """A stream can be followed from now on, or again. None if nobody wants it any more."""

    def end_stream(self, stream: LiveStream) -> None:
        """A stream is over."""

    def watched_elsewhere(self, stream: LiveStream) -> None:
        """Whether a stream of this worker is watched in others has changed."""


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


class _Peer:
    """One other worker."""

    def __init__(self, number: int, link: "Link[ToWriter | ToFollower]", follows: Follows) -> None:
        self.number = number
        self.link = link
        self.announcer = Announcer()
        self.follows = follows
        self.offered: dict[int, tuple[LiveStream, AnnouncedStream]] = {}
        """Streams of ours that it follows, by their numbers on the link."""


class Peers:
    """All other workers."""

    def __init__(
        self,
        keeper: StreamKeeper,
        show: Callable[[list[tuple[LiveStream, Flush]]], None],
        encoders: FrameEncoders,
        limits: LogLimits,
        make_link: "type[Link[ToWriter | ToFollower]]" = Link,
    ) -> None:
        """`show`: sends what became visible to those who watch it here. `make_link` is for tests."""
        self._keeper = keeper
        self._show = show
        self._encoders = encoders
        self._limits = limits
        self.make_link = make_link
        self._peers: dict[int, _Peer] = {}
        self._places: dict[str, _Place] = {}
        self._changes: dict[LiveStream, list[StreamChanged]] = {}
        """News that came in this round of events."""
        self._recounted: set[str] = set()
        self.ask_for_link: Callable[[int], None] = lambda _peer: None
        """Asks the supervisor for a new link to a worker."""
        self._just_ended: dict[str, tuple[int, LiveStream]] = {}
        """Streams of ours for late followers, with the epochs that they ended in."""
        self.resumes = 0
        """How often messages were missing because a link was too slow, over all links."""
        self._warnings = OncePerSecond(keeper.loop.clock)

    def link(self, number: int, sock: socket.socket) -> None:
        """There is a link to another worker, which may be new under an old number."""
        before = self._peers.get(number)
        if before is not None:
            before.link.close()
            self._lose(before)

        def on_message(message: ToWriter | ToFollower, descriptors: tuple[int, ...]) -> None:
            self._on_message(peer, message, descriptors)

        def on_closed() -> None:
            self._lose(peer)
            if peer.link.fault is not None:
                self.want_link(number)

        link = self.make_link(self._keeper.loop, sock, _DECODER, on_message, on_closed)
        peer = self._peers[number] = _Peer(number, link, Follows(FollowedBuffer, self._encoders, self._limits))
        link.send(Hello(VERSION))
        for key, place in self._places.items():
            if place.owner == number:
                _ask(peer, key, place)

    @property
    def followed_streams(self) -> int:
        """How many streams of others are watched here."""
        return len(self._places)

    def close(self) -> None:
        """This worker ends."""
        for peer in list(self._peers.values()):
            peer.link.close()
            peer.announcer.close()
        self._peers.clear()

    def finish_round(self) -> None:
        """At the end of a round of events: show what was announced, and announce what was shown."""
        if self._changes:
            self._show_changes()
        if self._recounted:
            self._recount()
        for peer in list(self._peers.values()):
            for body in peer.follows.data_to_send():
                peer.link.send_body(body)
            if peer.announcer.has_news:
                self._announce(peer)

    def _announce(self, peer: _Peer) -> None:
        try:
            for parcel in peer.announcer.take(CONGESTED_FROM_BYTES - peer.link.pending_bytes):
                peer.link.send_body(parcel.body, _read_only_copies(parcel.descriptors))
        except OSError as error:
            # What was taken is not sent: the other side can go on over a new link alone.
            self._give_up(peer, f"no descriptor is left: {error.strerror}")

    # Streams of this worker, followed in others.

    def changed(self, stream: LiveStream) -> None:
        """A publication of ours began or was lost."""
        for _, announced in self._offers_of(stream):
            if stream.publisher is None:
                announced.lose()
            else:
                announced.begin_anew()

    def ended(self, stream: LiveStream, epoch: int) -> None:
        """A stream of ours is over; told before its log is closed."""
        for _, announced in self._offers_of(stream):
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
        for _, announced in self._offers_of(stream):
            announced.lose()
        stream.viewers_elsewhere.clear()

    def _offers_of(self, stream: LiveStream) -> Iterator[tuple[_Peer, AnnouncedStream]]:
        for peer in self._peers.values():
            for offered, announced in peer.offered.values():
                if offered is stream:
                    yield peer, announced

    def _offer(self, peer: _Peer, request: Follow) -> None:
        key = key_of(request.name)
        stream = self._keeper.streams.get(key)
        ended_in, ended = self._just_ended.get(key, (None, None))
        if ended_in == request.epoch:
            stream = ended
        elif stream is None or stream.epoch != request.epoch:
            stream = None
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

    def _withdraw(self, peer: _Peer, number: int) -> None:
        stream, announced = peer.offered.pop(number)
        stream.listeners.remove(announced)
        stream.viewers_elsewhere.pop(peer.number, None)
        self._keeper.watched_elsewhere(stream)

    # Streams of others, watched here.

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

    def _recount(self) -> None:
        recounted, self._recounted = self._recounted, set()
        for key in recounted:
            place, stream = self._places.get(key), self._keeper.streams.get(key)
            if place is not None and place.number is not None and stream is not None:
                self._peers[place.owner].link.send(Watching(place.number, len(stream.viewers)))

    # What comes over a link.

    def _on_message(self, peer: _Peer, message: ToWriter | ToFollower, descriptors: tuple[int, ...]) -> None:
        try:
            match message:
                case Hello():
                    check_version(message)
                case Follow():
                    self._offer(peer, message)
                case Unfollow(number):
                    peer.announcer.unfollow(number)
                    self._withdraw(peer, number)
                case Released(segments):
                    peer.announcer.release(segments)
                case Watching(number, viewers):
                    stream, _ = peer.offered[number]
                    stream.viewers_elsewhere[peer.number] = viewers
                case _:
                    for event in peer.follows.receive(message, descriptors):
                        self._on_event(peer, event)
        except MalformedInput as error:
            self._give_up(peer, str(error))

    def _on_event(self, peer: _Peer, event: StreamOpened | StreamAbsent | StreamChanged) -> None:
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

    def _on_absent(self, peer: _Peer, absent: StreamAbsent) -> None:
        """It is on its way elsewhere, or over: the registry tells, or has told already."""
        key = key_of(absent.name)
        place = self._places.get(key)
        if place is not None and (place.owner, place.epoch) == (peer.number, absent.epoch):
            place.is_asked = False
            if place.is_over:
                self.over(key, place.epoch)
            else:
                del self._places[key]

    def _on_opened(self, peer: _Peer, opened: StreamOpened) -> None:
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

    def _give_up(self, peer: _Peer, reason: str) -> None:
        get_logger().error("link between workers ended", peer=peer.number, reason=reason)
        peer.link.close()
        self._lose(peer)
        self.want_link(peer.number)

    def want_link(self, number: int) -> None:
        """Ask for a link to a worker in a while, if there is none by then."""

        def ask() -> None:
            if number not in self._peers:
                self.ask_for_link(number)

        self._keeper.loop.call_later(_NEW_LINK_S, ask)

    def _lose(self, peer: _Peer) -> None:
        """A link has ended: the worker at its other end is gone, or about to be replaced."""
        if self._peers.get(peer.number) is not peer:
            return
        if self._changes:
            # What it had told is here, and comes before where its streams go on.
            self._show_changes()
        del self._peers[peer.number]
        for stream, announced in peer.offered.values():
            stream.listeners.remove(announced)
            stream.viewers_elsewhere.pop(peer.number, None)
            self._keeper.watched_elsewhere(stream)
        peer.announcer.close()
        for key, place in list(self._places.items()):
            if place.owner != peer.number:
                continue
            place.is_asked = False
            if place.is_over:
                self.over(key, place.epoch)
            elif place.number is not None:
                place.number = place.publication = None
                place.was_told = True
                stream_here = self._keeper.streams.get(key)
                if stream_here is not None:
                    stream_here.lose_elsewhere()
                    self._keeper.registry.last_seen(key, place.epoch, stream_here.continuation)


def _ask(peer: _Peer, key: str, place: _Place) -> None:
    place.is_asked = True
    peer.follows.follow(name_of(key), place.epoch)


def _read_only_copies(descriptors: Iterable[int]) -> list[int]:
    copies: list[int] = []
    try:
        copies.extend(map(read_only_copy, descriptors))
    except OSError:
        for copy in copies:
            os.close(copy)
        raise
    return copies
