"""A follower: nothing is missed within the allowance, whole GOPs beyond it, and memory is given back."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from penstock.media.frame import FrameKind, frame_of
from penstock.protocol.chunk_writer import standalone_writer
from penstock.relay.follower import Follower, FollowerBatch, FollowerLimits
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.payload import read_payloads
from penstock.relay.readable_log import LogLimits
from penstock.relay.segment import MemoryStore

CHUNK_SIZE = 4096
VIDEO_SETUP = b"\x17\x00\x00\x00\x00setup"
OTHER_VIDEO_SETUP = b"\x17\x00\x00\x00\x00other"
KEY = b"\x17\x01\x00\x00\x00"
INTER = b"\x27\x01\x00\x00\x00"
AUDIO = b"\xaf\x01"
HEAD_BYTES = 12


class Stage:
    """A log of one stream and a follower on it, under a clock of the test's own."""

    def __init__(self, limits: FollowerLimits | None = None) -> None:
        self.budget = LogBudget(2**30)
        encoders = {kind: standalone_writer(4, int(kind), 1, CHUNK_SIZE) for kind in FrameKind}
        self.log = StreamLog(MemoryStore(), encoders, LogLimits(), self.budget)
        self.follower = Follower(self.log, limits or FollowerLimits())
        self.now = 100.0

    def flush(self, *payloads: bytes) -> None:
        """One flush of these messages."""
        for payload in payloads:
            kind = FrameKind.AUDIO if payload[0] >> 4 == 10 else FrameKind.VIDEO
            self.log.append(frame_of(kind, 0, payload), self.now)
        flush = self.log.flush(self.now)
        assert flush is not None
        self.follower.on_flush(flush, self.now)


def payloads_of(batches: Iterable[FollowerBatch]) -> list[bytes]:
    return [
        bytes(payload) for batch in batches for _, payload in read_payloads(batch.segment, batch.entries, CHUNK_SIZE)
    ]


def setup_of(batch: FollowerBatch) -> list[bytes]:
    return [frame.payload for frame in batch.config.frames]


def test_everything_is_taken_in_order() -> None:
    stage = Stage()
    stage.flush(VIDEO_SETUP, KEY + b"1")
    stage.flush(AUDIO, INTER + b"2")
    assert payloads_of(stage.follower.take()) == [VIDEO_SETUP, KEY + b"1", AUDIO, INTER + b"2"]
    assert stage.follower.take() == []
    assert not stage.follower.has_backlog


def test_taking_a_little_takes_at_least_one_batch() -> None:
    stage = Stage()
    stage.flush(KEY)
    stage.flush(INTER)
    assert payloads_of(stage.follower.take(1)) == [KEY]
    assert stage.follower.has_backlog
    assert payloads_of(stage.follower.take(2**20)) == [INTER]


def test_what_was_taken_counts_until_it_is_given_back() -> None:
    stage = Stage()
    stage.flush(KEY, INTER)
    held_bytes = stage.follower.held_bytes
    assert held_bytes == 2 * (HEAD_BYTES + len(KEY))
    (batch,) = stage.follower.take()
    assert (stage.follower.backlog_bytes, stage.follower.held_bytes) == (0, held_bytes)
    stage.follower.done(batch)
    assert stage.follower.held_bytes == 0


def test_a_batch_says_what_was_in_force_before_it() -> None:
    stage = Stage()
    stage.flush(VIDEO_SETUP, KEY)
    stage.flush(INTER)
    first, second = stage.follower.take()
    assert setup_of(first) == []
    assert setup_of(second) == [VIDEO_SETUP]


def test_beyond_the_bytes_the_oldest_gop_goes_and_the_gap_is_told() -> None:
    stage = Stage(FollowerLimits(max_bytes=5 * (HEAD_BYTES + len(KEY) + 1)))
    stage.flush(KEY + b"1")
    stage.flush(INTER + b"2", INTER + b"3")
    stage.flush(KEY + b"4")
    stage.flush(INTER + b"5")
    assert stage.follower.dropped_messages == 0
    stage.flush(INTER + b"6")
    batches = stage.follower.take()
    assert payloads_of(batches) == [KEY + b"4", INTER + b"5", INTER + b"6"]
    assert [batch.dropped_messages for batch in batches] == [3, 0, 0]
    assert batches[0].dropped_bytes == 3 * (HEAD_BYTES + len(KEY) + 1)
    assert (stage.follower.dropped_messages, stage.follower.dropped_bytes) == (3, batches[0].dropped_bytes)


def test_a_gop_that_ends_within_a_flush_is_dropped_to_its_end() -> None:
    stage = Stage(FollowerLimits(max_bytes=4 * (HEAD_BYTES + len(KEY))))
    stage.flush(KEY, INTER)
    stage.flush(INTER, KEY, INTER)
    assert payloads_of(stage.follower.take()) == [KEY, INTER]


def test_two_gaps_without_anything_between_are_one() -> None:
    stage = Stage(FollowerLimits(max_bytes=2 * (HEAD_BYTES + len(KEY))))
    for _ in range(4):
        stage.flush(KEY)
        stage.flush(INTER)
    batches = stage.follower.take()
    assert payloads_of(batches) == [KEY, INTER]
    assert [batch.dropped_messages for batch in batches] == [6, 0]


def test_beyond_the_age_the_oldest_gop_goes() -> None:
    stage = Stage(FollowerLimits(max_age_s=30.0))
    stage.flush(KEY + b"1")
    stage.now += 20.0
    stage.flush(KEY + b"2")
    stage.now += 10.5
    stage.flush(INTER + b"3")
    assert payloads_of(stage.follower.take()) == [KEY + b"2", INTER + b"3"]


def test_after_everything_was_dropped_it_goes_on_at_a_key_frame() -> None:
    stage = Stage(FollowerLimits(max_bytes=2 * (HEAD_BYTES + len(KEY))))
    stage.flush(KEY)
    stage.flush(INTER)
    stage.flush(INTER)
    stage.flush(INTER, AUDIO)
    assert stage.follower.take() == []
    stage.flush(AUDIO, KEY + b"2")
    (batch,) = stage.follower.take()
    assert payloads_of([batch]) == [KEY + b"2"]
    assert batch.dropped_messages == stage.follower.dropped_messages == 6


def test_without_a_key_frame_it_goes_on_after_a_while() -> None:
    stage = Stage(FollowerLimits(max_bytes=2 * (HEAD_BYTES + len(KEY)), max_key_wait_s=10.0))
    stage.flush(KEY)
    stage.flush(INTER)
    stage.flush(INTER)
    stage.now += 9.0
    stage.flush(INTER + b"9")
    stage.now += 1.0
    stage.flush(INTER + b"x")
    (batch,) = stage.follower.take()
    assert payloads_of([batch]) == [INTER + b"x"]
    assert batch.dropped_messages == 4


def test_without_video_only_the_oldest_messages_go() -> None:
    stage = Stage(FollowerLimits(max_bytes=2 * (HEAD_BYTES + len(AUDIO) + 1)))
    for letter in b"abcd":
        stage.flush(AUDIO + bytes((letter,)))
    batches = stage.follower.take()
    assert payloads_of(batches) == [AUDIO + b"c", AUDIO + b"d"]
    assert [batch.dropped_messages for batch in batches] == [2, 0]


def test_what_the_consumer_has_is_never_dropped() -> None:
    stage = Stage(FollowerLimits(max_bytes=2 * (HEAD_BYTES + len(KEY))))
    stage.flush(KEY + b"1")
    taken = stage.follower.take()
    for _ in range(5):
        stage.flush(KEY + b"2", INTER)
    assert payloads_of(taken) == [KEY + b"1"]
    stage.follower.done(taken[0])
    stage.flush(KEY + b"3")
    assert payloads_of(stage.follower.take()) == [KEY + b"3"]


def test_set_up_survives_the_messages_it_came_with() -> None:
    stage = Stage(FollowerLimits(max_bytes=3 * (HEAD_BYTES + len(VIDEO_SETUP))))
    stage.flush(VIDEO_SETUP, KEY)
    stage.flush(INTER, OTHER_VIDEO_SETUP, KEY + b"2", INTER)
    (batch,) = stage.follower.take()
    assert payloads_of([batch]) == [KEY + b"2", INTER]
    assert setup_of(batch) == [OTHER_VIDEO_SETUP]


def test_set_up_that_came_while_everything_was_dropped_is_in_force() -> None:
    stage = Stage(FollowerLimits(max_bytes=HEAD_BYTES + len(KEY)))
    stage.flush(KEY)
    stage.flush(INTER)
    stage.flush(VIDEO_SETUP, INTER)
    stage.flush(OTHER_VIDEO_SETUP, KEY)
    (batch,) = stage.follower.take()
    assert payloads_of([batch]) == [KEY]
    assert setup_of(batch) == [OTHER_VIDEO_SETUP]


def test_a_tap_on_a_running_stream_knows_its_set_up() -> None:
    stage = Stage()
    stage.flush(VIDEO_SETUP, KEY)
    stage.follower = Follower(stage.log, FollowerLimits())
    stage.flush(INTER)
    (batch,) = stage.follower.take()
    assert setup_of(batch) == [VIDEO_SETUP]


def test_a_closed_tap_holds_nothing() -> None:
    stage = Stage()
    stage.flush(KEY)
    stage.log.close()
    assert stage.budget.used_bytes > 0
    stage.follower.close()
    assert (stage.budget.used_bytes, stage.follower.held_bytes) == (0, 0)


@given(
    steps=st.lists(st.sampled_from(["key", "inter", "audio", "both", "take", "done"]), min_size=1, max_size=60),
    max_messages=st.integers(1, 12),
)
def test_what_comes_out_is_what_went_in_but_for_the_gaps_that_are_told(steps: list[str], max_messages: int) -> None:
    message_bytes = HEAD_BYTES + len(KEY) + 4
    stage = Stage(FollowerLimits(max_bytes=max_messages * message_bytes))
    sent: list[bytes] = []
    received: list[bytes | int] = []
    taken: list[FollowerBatch] = []

    def take() -> None:
        for batch in stage.follower.take(2 * message_bytes):
            if batch.dropped_messages:
                received.append(batch.dropped_messages)
            received.extend(payloads_of([batch]))
            taken.append(batch)

    for step in steps:
        number = len(sent).to_bytes(4, "big")
        match step:
            case "take":
                take()
            case "done":
                while taken:
                    stage.follower.done(taken.pop())
            case "both":
                sent += [INTER + number, KEY + (len(sent) + 1).to_bytes(4, "big")]
                stage.flush(*sent[-2:])
            case _:
                sent.append({"key": KEY, "inter": INTER, "audio": AUDIO + b"\0\0\0"}[step] + number)
                stage.flush(sent[-1])
        backlog_bytes = stage.follower.held_bytes - sum(HEAD_BYTES + len(payload) for payload in payloads_of(taken))
        assert backlog_bytes == stage.follower.backlog_bytes
        assert stage.follower.backlog_bytes == 0 or stage.follower.held_bytes <= max_messages * message_bytes
    while stage.follower.has_backlog:
        take()

    position = 0
    for item in received:
        if isinstance(item, int):
            position += item
        else:
            assert item == sent[position]
            position += 1
    for batch in taken:
        stage.follower.done(batch)
    stage.follower.close()
    stage.log.close()
    assert (stage.follower.held_bytes, stage.budget.used_bytes) == (0, 0)
