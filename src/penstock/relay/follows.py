"""What one process follows of the logs of another: the follower's side of one link.

Owns which logs are followed there, which descriptors belong to which news, and what the writer is told: what is wanted,
and which segments nobody here reads from any more. Sockets are for the server, as is what becomes of viewers.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.errors import MalformedInput, MisuseError
from penstock.relay.followed_log import FollowedLog, OpenSegment
from penstock.relay.following import (
    Follow,
    Hello,
    News,
    NotHere,
    Opened,
    Picture,
    Released,
    Round,
    ToFollower,
    ToWriter,
    Unfollow,
    check_version,
    encode,
)
from penstock.relay.readable_log import Flush, FrameEncoders, LogLimits
from penstock.relay.segment import SegmentBuffer


class StreamOpened(NamedTuple):
    """A stream that was asked for is followed from now on. What its log holds comes as the first changes."""

    name: bytes
    epoch: int
    number: int
    log: FollowedLog


class StreamAbsent(NamedTuple):
    """A stream that was asked for is not there."""

    name: bytes
    epoch: int


class StreamChanged(NamedTuple):
    """News of a stream, to be applied before those that come next."""

    stream: StreamOpened
    news: News
    buffers: list[SegmentBuffer]

    @property
    def is_gap(self) -> bool:
        """Whether messages are missing before these: those in step have to leave it before they are applied."""
        return self.stream.log.is_gap(self.news)

    def apply(self) -> Iterator[Flush]:
        """Make them visible: the head moves with each flush. To be walked to its end."""
        return self.stream.log.apply(self.news, self.buffers)

    def pass_over(self) -> None:
        """Nobody wants them any more."""
        self.stream.log.pass_over(self.news, self.buffers)


FollowEvent = StreamOpened | StreamAbsent | StreamChanged


class Follows:
    """All logs of one writer that are followed here."""

    def __init__(self, open_segment: OpenSegment, encoders: FrameEncoders, limits: LogLimits) -> None:
        self._open_segment = open_segment
        self._encoders = encoders
        self._limits = limits
        self._streams: dict[int, StreamOpened] = {}
        self._to_send: list[ToWriter] = []
        self._released: list[int] = []

    @property
    def resumes(self) -> int:
        """How often messages are missing in the streams that are followed now."""
        return sum(stream.log.resumes for stream in self._streams.values())

    def follow(self, name: bytes, epoch: int) -> None:
        """Ask for a stream. The answer is an event."""
        self._to_send.append(Follow(name, epoch))

    def unfollow(self, number: int) -> None:
        """Hear no more of a stream. Its log is for its readers to close: they may not have had all that came."""
        if self._streams.pop(number, None) is None:
            raise MisuseError(f"following: stream {number} is not followed")
        self._to_send.append(Unfollow(number))

    def data_to_send(self) -> list[bytes]:
        """Encoded messages for the writer; asked for at the end of every round."""
        messages, self._to_send = self._to_send, []
        if self._released:
            messages.append(Released(self._released.copy()))
            # The same list, since logs add to it.
            self._released.clear()
        return [encode(message) for message in messages]

    def receive(self, message: ToFollower, descriptors: Sequence[int] = ()) -> list[FollowEvent]:
        """What a message of the writer means. All descriptors are taken over, also those that are of no use."""
        buffers = [self._open_segment(descriptor) for descriptor in descriptors]
        expected = _descriptors_of(message)
        if len(buffers) != expected:
            for buffer in buffers:
                buffer.close()
            raise MalformedInput("following", f"{len(buffers)} descriptors beside a message with {expected}")
        match message:
            case Hello():
                check_version(message)
                return []
            case NotHere(name, epoch):
                return [StreamAbsent(name, epoch)]
            case Opened(name, epoch, number, position):
                log = FollowedLog(self._encoders, self._limits, position, self._released)
                stream = self._streams[number] = StreamOpened(name, epoch, number, log)
                return [stream]
            case Round(round_news):
                return list(self._changes(round_news, iter(buffers)))
            case Picture():
                raise MisuseError("following: a picture is for whoever asked for it, and tells nothing of a log")

    def _changes(self, round_news: list[News], buffers: Iterator[SegmentBuffer]) -> Iterator[StreamChanged]:
        for news in round_news:
            own = [next(buffers) for run in news.runs if run.has_descriptor]
            stream = self._streams.get(news.stream)
            if stream is not None:
                yield StreamChanged(stream, news, own)
                continue
            # They were under way when the stream was let go of.
            for buffer in own:
                buffer.close()
            self._released += [run.segment for run in news.runs if run.start is not None]


def _descriptors_of(message: ToFollower) -> int:
    if not isinstance(message, Round):
        return 0
    return sum(run.has_descriptor for news in message.news for run in news.runs)
