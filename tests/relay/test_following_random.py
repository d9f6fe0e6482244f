"""Following under any order of events: what a follower reads is what was written, and all memory comes back."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from penstock.media.frame import Frame
from penstock.relay.cursor import Cursor
from penstock.relay.log import LogBudget
from penstock.relay.readable_log import LogLimits
from penstock.relay.segment import MemoryStore
from tests.relay.following_stage import FollowingStage
from tests.relay.support import audio, audio_setup, caption, inter, key, metadata, video_setup

LIMITS = LogLimits(
    max_age_s=3.0, min_segment_bytes=300, max_segment_bytes=900, max_bytes=6000, lookback_s=1.0, max_messages=600
)
FRAMES: dict[str, Callable[[int, bytes], Frame]] = {
    "key": key,
    "inter": inter,
    "audio": audio,
    "video setup": video_setup,
    "audio setup": audio_setup,
    "metadata": lambda timestamp_ms, body: metadata(timestamp_ms),
    "caption": lambda timestamp_ms, body: caption(timestamp_ms),
}
KINDS = st.sampled_from(sorted(FRAMES))
ROOMS = st.sampled_from([0, 0, 1, 200, 1 << 20])


class Following(RuleBasedStateMachine):
    """A writer, a link that delivers when it likes, a follower with one reader in step and one that lags."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.written = b""
        self.starts: set[int] = set()
        """Of messages at which one may begin."""
        self.cursor: Cursor | None = None
        self.shown = 0
        """How many flushes those in step were sent."""
        self.in_step_at: int | None = None

    @initialize(budget_bytes=st.sampled_from([4000, 20_000, 1 << 40]), is_shared=st.booleans())
    def begin(self, budget_bytes: int, is_shared: bool) -> None:
        self.stage = FollowingStage(LIMITS, LogBudget(budget_bytes), None if is_shared else MemoryStore())

    # The writer.

    def _append(self, frame: Frame) -> None:
        log = self.stage.log
        self.starts.add(log.head + log.unflushed_bytes)
        log.append(frame, self.now)

    @rule(kind=KINDS, size=st.integers(0, 400))
    def append(self, kind: str, size: int) -> None:
        self._append(FRAMES[kind](round(self.now * 1000), bytes(size)))

    @rule(kinds=st.lists(KINDS, max_size=8), step_s=st.floats(0.0, 1.0))
    def flush(self, kinds: list[str], step_s: float) -> None:
        self.now += step_s
        for kind in kinds:
            self._append(FRAMES[kind](round(self.now * 1000), bytes((len(self.written) % 251,)) * 50))
        stage = self.stage
        flush = stage.log.flush(self.now)
        if flush is not None:
            self.written += flush.data
            if stage.announced is not None:
                stage.announced.on_flush(flush, self.now)

    @rule()
    def come_back(self) -> None:
        self.flush([], 0.0)
        self.stage.log.begin_anew()
        if self.stage.announced is not None:
            self.stage.announced.begin_anew()

    @rule()
    def lose(self) -> None:
        self.flush([], 0.0)
        self.stage.log.forget_entry_points()
        if self.stage.announced is not None:
            self.stage.announced.lose()

    @rule()
    def clear_metadata(self) -> None:
        self.stage.log.clear_metadata()

    @rule(is_all=st.booleans())
    def run_short_of_memory(self, is_all: bool) -> None:
        if is_all:
            self.stage.log.drop_everything()
        else:
            self.stage.log.cut_back()

    # The link.

    @rule(room_bytes=ROOMS)
    def end_round(self, room_bytes: int) -> None:
        self.stage.take(room_bytes)

    @precondition(lambda self: self.stage.to_writer)
    @rule()
    def deliver_to_writer(self) -> None:
        self.stage.deliver_to_writer()

    @precondition(lambda self: self.stage.to_follower)
    @rule()
    def deliver_to_follower(self) -> None:
        self.stage.deliver_to_follower()
        self._read_in_step()

    # The follower.

    @precondition(lambda self: self.stage.stream is None)
    @rule()
    def follow(self) -> None:
        self.stage.follows.follow(b"live/test", 1)
        self.stage.take(0)
        while self.stage.to_writer:
            self.stage.deliver_to_writer()
        self.stage.take()
        while self.stage.stream is None:
            self.stage.deliver_to_follower()
        self.in_step_at = None
        self._read_in_step()

    @precondition(lambda self: self.stage.stream is not None)
    @rule()
    def unfollow(self) -> None:
        self.leave()
        self.stage.unfollow()

    @precondition(lambda self: self.stage.stream is not None and self.cursor is None)
    @rule()
    def join(self) -> None:
        point = self.stage.followed.newest_point
        if point is not None and point.position < self.stage.followed.head:
            self.cursor = Cursor(self.stage.followed)
            self.cursor.position = point.position
            assert point.position in self.starts

    @precondition(lambda self: self.cursor is not None)
    @rule(size=st.integers(1, 700))
    def read(self, size: int) -> None:
        cursor = self.cursor
        assert cursor is not None
        piece = cursor.next_range()
        if piece is None:
            if not cursor.is_in_step:
                self.cursor = None
                self.join()
            return
        size = min(size, piece.size)
        data = piece.segment.read(piece.position, size)
        assert data == self.written[piece.position : piece.position + size]
        cursor.advance(size)

    @precondition(lambda self: self.cursor is not None)
    @rule()
    def leave(self) -> None:
        if self.cursor is not None:
            self.cursor.release()
            self.cursor = None

    @precondition(lambda self: self.stage.stream is not None)
    @rule()
    def let_go(self) -> None:
        self.stage.followed.drop_everything()

    def _read_in_step(self) -> None:
        for flush in self.stage.flushes[self.shown :]:
            if flush.position not in self.stage.gaps:
                assert self.in_step_at in (None, flush.position), "nothing is left out but where a gap was told"
            self.in_step_at = flush.position + flush.size
            assert sum(entry.encoded_bytes for entry in flush.entries) == flush.size
            assert self.in_step_at <= len(self.written)
            if flush.segment in self.stage.followed._segments:
                assert flush.data == self.written[flush.position : self.in_step_at]
        self.shown = len(self.stage.flushes)

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        stage = self.stage
        self.flush([], 0.0)
        if stage.stream is None:
            self.follow()
        elif stage.announced is not None:
            stage.announced.begin_anew()
        stage.deliver_all()
        log, followed = stage.log, stage.followed
        assert (followed.head, followed.config) == (log.head, log.config)
        assert followed.points.remembered == log.points.remembered
        assert followed.last_timestamp_ms == log.last_timestamp_ms
        point = log.newest_point
        followed_point = followed.newest_point
        if point is not None and followed_point is not None:
            assert log.joining_messages(point.config, 5) == followed.joining_messages(followed_point.config, 5)
        log.close()
        if self.cursor is None:
            self.join()
        self.leave()
        self.stage.unfollow()
        stage.deliver_all()
        assert stage.announcer.lent_segments == 0
        assert (stage.budget.used_bytes, stage.budget.returning_bytes) == (0, 0)
        assert not stage.memory.written
        assert not stage.memory.opened


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
