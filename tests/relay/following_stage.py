"""A writer and a follower with a link of two queues between them: nothing is delivered before a test says so."""

from collections import deque
from collections.abc import Callable, Sequence

from penstock.relay.announcer import AnnouncedStream, Announcer, Parcel
from penstock.relay.followed_log import FollowedLog
from penstock.relay.following import (
    Follow,
    Hello,
    News,
    Released,
    Unfollow,
    decode_for_follower,
    decode_for_writer,
)
from penstock.relay.follows import Follows, StreamAbsent, StreamChanged, StreamOpened
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.readable_log import Flush, LogLimits
from penstock.relay.segment import MemoryBuffer, SegmentBuffer, SegmentStore
from tests.relay.support import ENCODERS

PLENTY = 1 << 30
NAME = b"live/test"


class SharedBuffer(MemoryBuffer):
    """Memory with a number by which another process can read it."""

    def __init__(self, memory: "SharedMemory", number: int) -> None:
        super().__init__()
        self._memory = memory
        self._number = number
        self.is_closed = False

    @property
    def descriptor(self) -> int | None:
        return self._number

    def append(self, pieces: Sequence[bytes]) -> None:
        assert not self.is_closed
        super().append(pieces)

    def close(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True
        self._memory.written.pop(self._number)


class OpenedBuffer:
    """The same memory as another process sees it."""

    def __init__(self, memory: "SharedMemory", shared: SharedBuffer) -> None:
        self._memory = memory
        self._shared = shared
        self.is_closed = False

    @property
    def descriptor(self) -> int | None:
        return 1000

    def append(self, pieces: Sequence[bytes]) -> None:
        raise AssertionError("one process writes a segment")

    def read(self, offset: int, size: int) -> bytes:
        assert not self.is_closed, "read after it was closed"
        assert not self._shared.is_closed, "the memory was given back while somebody read from it"
        data = self._shared.read(offset, size)
        assert len(data) == size, "told before it was written"
        return data

    def view(self, offset: int, size: int) -> memoryview:
        return memoryview(self.read(offset, size))

    def close(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True
        self._memory.opened.remove(self)


class SharedMemory(SegmentStore):
    """Where segments come from, and where a follower finds them."""

    def __init__(self) -> None:
        self.written: dict[int, SharedBuffer] = {}
        self.opened: set[OpenedBuffer] = set()
        self._last_number = 0

    def create(self) -> SharedBuffer:
        self._last_number += 1
        buffer = self.written[self._last_number] = SharedBuffer(self, self._last_number)
        return buffer

    def open_segment(self, descriptor: int) -> SegmentBuffer:
        buffer = OpenedBuffer(self, self.written[descriptor])
        self.opened.add(buffer)
        return buffer


class FollowingStage:
    """One log, one follower."""

    def __init__(
        self, limits: LogLimits | None = None, budget: LogBudget | None = None, store: SegmentStore | None = None
    ) -> None:
        self.memory = SharedMemory()
        self.limits = limits or LogLimits()
        self.budget = budget or LogBudget(1 << 40)
        self.log = StreamLog(store or self.memory, ENCODERS, self.limits, self.budget)
        self.announcer = Announcer()
        self.announced: AnnouncedStream | None = None
        self.follows = Follows(self.memory.open_segment, ENCODERS, self.limits)
        self.stream: StreamOpened | None = None
        self.absent: list[bytes] = []
        self.to_follower: deque[Parcel] = deque()
        self.to_writer: deque[bytes] = deque()
        self.break_step: Callable[[], None] = lambda: None
        """What those in step do before messages are missing."""
        self.show: Callable[[Flush, float], None] = lambda _flush, _now: None
        """How those in step are sent what has become visible."""
        self.gaps: list[int] = []
        """Where messages were missing before."""
        self.flushes: list[Flush] = []
        """What was shown to those in step."""
        self.news: list[News] = []

    @property
    def followed(self) -> FollowedLog:
        assert self.stream is not None
        return self.stream.log

    def flush(self, now: float = 0.0) -> None:
        """As a live stream does: what was flushed, then its listeners."""
        flush = self.log.flush(now)
        if flush is not None and self.announced is not None:
            self.announced.on_flush(flush, now)

    def take(self, room_bytes: int = PLENTY) -> None:
        """The end of a round in both processes."""
        self.to_follower.extend(self.announcer.take(room_bytes))
        self.to_writer.extend(self.follows.data_to_send())

    def deliver_to_writer(self) -> None:
        """The oldest message of the follower arrives."""
        match decode_for_writer(self.to_writer.popleft()):
            case Hello():
                raise AssertionError("the link's matter")
            case Follow(name, epoch):
                if name == NAME:
                    self.announced = self.announcer.follow(name, epoch, self.log, is_live=True)
                else:
                    self.announcer.refuse(name, epoch)
            case Unfollow(number):
                assert self.announcer.unfollow(number) is self.announced
                self.announced = None
            case Released(segments):
                self.announcer.release(segments)

    def deliver_to_follower(self) -> None:
        """The oldest message of the writer arrives."""
        body, descriptors = self.to_follower.popleft()
        for event in self.follows.receive(decode_for_follower(body), descriptors):
            match event:
                case StreamOpened():
                    self.stream = event
                case StreamAbsent(name, _):
                    self.absent.append(name)
                case StreamChanged(stream, news, _):
                    self.news.append(news)
                    if event.is_gap:
                        self.gaps.append(news.position)
                        self.break_step()
                    for flush in event.apply():
                        assert stream.log.head == flush.position + flush.size
                        self.flushes.append(flush)
                        self.show(flush, 0.0)

    def deliver_all(self) -> None:
        """Rounds until nobody has anything to say."""
        while True:
            self.take()
            if not self.to_writer and not self.to_follower:
                return
            while self.to_writer:
                self.deliver_to_writer()
            while self.to_follower:
                self.deliver_to_follower()

    def follow(self) -> None:
        """The follower asks for the stream and hears what is in it."""
        self.follows.follow(NAME, 7)
        self.deliver_all()

    def unfollow(self) -> None:
        """The follower wants it no more."""
        assert self.stream is not None
        self.follows.unfollow(self.stream.number)
        self.stream.log.close()
        self.stream = None
