"""The hub: names to streams, one publisher each, and who waits for whom.

Owns who may publish under a name and what happens to a stream when its publisher goes, returns or is replaced. Knows
publishers and viewers only as opaque tokens; it answers with values, and the server acts on them.
"""

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from penstock.media.frame import Frame
from penstock.relay.log import StreamLog
from penstock.relay.timeline import Timeline


class PublishAnswer(enum.Enum):
    """What is to be done about one who wants to publish."""

    ACCEPT = "accept"
    REPLACE = "replace the publisher that is there"
    WAIT = "see if the publisher that is there still lives"


@dataclass(frozen=True, slots=True)
class HubSettings:
    """How long things may last."""

    silent_publisher_s: float = 3.0
    """A publisher that has sent nothing for this long is replaced by the next one at once."""
    liveness_wait_s: float = 2.0
    """How long a second publisher waits while the first is pinged."""


class HubStream:
    """One stream: its log, its publisher, and the time for which it may be without one."""

    def __init__(self, key: str, log: StreamLog, now: float) -> None:
        self.key = key
        self.log = log
        self.opened_at = now
        self.published_at = now
        self.publisher: Hashable | None = None
        self.last_media_at = now
        """When the publisher last sent anything, or began."""
        self.grace_until: float | None = None
        self.publications = 0
        self._timeline = Timeline()
        self._last_frame_at = now

    @property
    def is_live(self) -> bool:
        """Whether somebody publishes it now."""
        return self.publisher is not None

    def begin(self, publisher: Hashable, now: float) -> None:
        """A publication begins; it continues the stream if there was one before."""
        if self.publications:
            self._timeline = self._timeline.next(self.log.last_timestamp_ms, self._last_frame_at)
            self.log.begin_anew()
        self.publications += 1
        self.publisher = publisher
        self.published_at = now
        self.grace_until = None
        self.last_media_at = now

    def append(self, frame: Frame, now: float) -> None:
        """Take a frame of the publisher."""
        self.last_media_at = now
        if not frame.is_setup:
            self._last_frame_at = now
        if self._timeline.offset_ms == 0:
            self.log.append(frame, now)
            return
        for placed in self._timeline.place(frame, now):
            self.log.append(placed, now)

    def lose(self, now: float, grace_s: float) -> None:
        """The publisher is gone without a word; it may come back within the grace."""
        self.publisher = None
        self.grace_until = now + grace_s
        self.log.forget_entry_points()


class Hub:
    """All streams by key."""

    def __init__(self, new_log: Callable[[], StreamLog], settings: HubSettings | None = None) -> None:
        self._new_log = new_log
        self._settings = settings or HubSettings()
        self.streams: dict[str, HubStream] = {}

    @property
    def settings(self) -> HubSettings:
        """How long things may last."""
        return self._settings

    def ask_to_publish(self, key: str, now: float, *, may_replace: bool) -> PublishAnswer:
        """What to do about one who wants to publish under a name."""
        stream = self.streams.get(key)
        if stream is None or stream.publisher is None:
            return PublishAnswer.ACCEPT
        if may_replace or now - stream.last_media_at >= self._settings.silent_publisher_s:
            return PublishAnswer.REPLACE
        return PublishAnswer.WAIT

    def begin(self, key: str, publisher: Hashable, now: float) -> HubStream:
        """A publication begins. Whoever published before must have been told already."""
        stream = self.streams.get(key)
        if stream is None:
            stream = self.streams[key] = HubStream(key, self._new_log(), now)
        stream.begin(publisher, now)
        return stream

    def end(self, key: str) -> HubStream | None:
        """A stream is over."""
        stream = self.streams.pop(key, None)
        if stream is not None:
            stream.log.close()
        return stream

    def expired(self, now: float) -> list[HubStream]:
        """Streams whose publisher did not come back in time."""
        return [
            stream for stream in self.streams.values() if stream.grace_until is not None and now >= stream.grace_until
        ]
