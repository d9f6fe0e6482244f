"""One other worker, and what a stream means between the two.

Owns the two halves of a link, what we announce and what we follow, and what both ask of whoever has the streams.
"""

from collections.abc import Mapping
from typing import Protocol

from penstock.relay.announcer import AnnouncedStream, Announcer
from penstock.relay.following import ToFollower, ToWriter
from penstock.relay.follows import Follows
from penstock.relay.readable_log import ReadableLog
from penstock.serve.links.link import Link
from penstock.serve.reactor import Loop
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.registry import Registry


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


class Peer:
    """One other worker."""

    def __init__(self, number: int, link: Link[ToWriter | ToFollower], follows: Follows) -> None:
        self.number = number
        self.link = link
        self.announcer = Announcer()
        self.follows = follows
        self.offered: dict[int, tuple[LiveStream, AnnouncedStream]] = {}
        """Streams of ours that it follows, by their numbers on the link."""
