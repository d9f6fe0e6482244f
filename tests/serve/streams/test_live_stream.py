"""The fan-out of a live stream: viewers in step, those who fall behind and catch up, and those who must skip."""

import errno

import pytest

from penstock.media.frame import FrameKind
from penstock.relay.readable_log import Flush, LogLimits
from penstock.serve.reactor import READ, WRITE
from tests.relay.support import audio, encode, inter, key, video_setup
from tests.serve.streams.stream_stage import StreamStage, Watcher, in_step, published

SMALL_SEGMENTS = LogLimits(max_gops=2, min_segment_bytes=1000, max_segment_bytes=1000)
LOST = OSError(errno.EPIPE, "Broken pipe")


# In step.


def test_viewers_in_step_are_sent_the_same_bytes_by_one_call() -> None:
    on = published()
    one, two = in_step(on), in_step(on)
    on.fan_out.calls.clear()
    on.send(inter(80, b"i2"), audio(90, b"a2"))
    assert on.fan_out.calls == [[one.transport.descriptor, two.transport.descriptor]]
    assert one.heard() == two.heard() == ["i2", "a2"]


@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("taken", [0, 1, 20, 60])
def test_one_that_takes_less_falls_behind_and_catches_up_without_a_loss(taken: int, is_encrypted: bool) -> None:
    on = published()
    slow, other = in_step(on, is_encrypted=is_encrypted), in_step(on)
    slow.transport.room_bytes = taken
    on.send(inter(80, b"i2" + bytes(50)), audio(90, b"a2"))
    assert not slow.viewer.is_in_step
    assert on.loop.interest[slow.transport.descriptor] == READ | WRITE
    on.send(inter(120, b"i3"))
    assert other.heard() == ["i2", "a2", "i3"], "nobody waits for it"
    slow.transport.room_bytes = 10**9
    on.loop.settle()
    assert slow.viewer.is_in_step
    on.send(inter(160, b"i4"))
    assert slow.heard() == ["i2", "a2", "i3", "i4"]


def test_under_tls_bytes_pass_through_the_transport_and_not_by_the_shared_call() -> None:
    on = published()
    watcher = in_step(on, is_encrypted=True)
    on.fan_out.calls.clear()
    on.send(inter(80, b"i2"))
    assert (watcher.heard(), on.fan_out.calls) == (["i2"], [])


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_connection_that_is_lost_while_sending_goes_and_nothing_else(is_encrypted: bool) -> None:
    on = published()
    lost, other = in_step(on, is_encrypted=is_encrypted), in_step(on)
    lost.transport.fault = LOST
    on.send(inter(80, b"i2"))
    assert on.owner.closings == ["connection lost while sending"]
    assert other.heard() == ["i2"]


def test_a_reply_comes_between_two_messages_of_one_in_step() -> None:
    on = published()
    watcher = in_step(on)
    watcher.transport.room_bytes = 5
    on.send(inter(80, b"i2"))
    watcher.connection.queue.put(encode(FrameKind.DATA, 0, b"a reply"))
    watcher.connection.request_turn()
    on.send(inter(120, b"i3"))
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard() == ["i2", "a reply", "i3"]
    assert watcher.viewer.is_in_step


def test_whatever_little_is_taken_at_a_time_every_message_is_whole_and_in_order() -> None:
    on = published()
    watcher = in_step(on)
    watcher.transport.room_bytes = 3
    on.send(inter(80, b"i2" + bytes(50)), inter(120, b"i3"))
    watcher.connection.queue.put(encode(FrameKind.DATA, 0, b"a reply"))
    watcher.transport.most_per_send = 4
    for _ in range(30):
        watcher.transport.room_bytes = 7
        on.loop.settle()
    assert watcher.heard() == ["i2", "a reply", "i3"]
    assert watcher.viewer.is_in_step


def test_one_with_a_reply_that_is_not_out_leaves_the_step() -> None:
    on = published()
    watcher = in_step(on)
    on.send(inter(60, b"in step"))
    assert watcher.heard() == ["in step"]
    watcher.transport.room_bytes = 3
    watcher.connection.queue.put(encode(FrameKind.DATA, 0, b"a reply"))
    watcher.connection.send()
    assert not watcher.viewer.is_in_step
    on.send(inter(80, b"i2"))
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard() == ["a reply", "i2"]


def test_followers_hear_of_a_flush_before_it_is_sent() -> None:
    on = published()
    watcher = in_step(on)
    heard: list[tuple[Flush, list[str]]] = []

    class Follower:
        def on_flush(self, flush: Flush, now: float) -> None:
            heard.append((flush, watcher.heard()))

    on.stream.listeners.append(Follower())
    on.send(inter(80, b"i2"))
    on.flush()
    assert [([entry.timestamp_ms for entry in flush.entries], sent) for flush, sent in heard] == [([80], [])]


def test_one_that_catches_up_gives_way_when_its_turn_is_over() -> None:
    on = published()
    watcher = in_step(on)
    watcher.transport.room_bytes = 0
    for number in range(20):
        on.send(inter(80 + number, bytes(100_000)))
    watcher.transport.room_bytes = 10**9
    on.loop.look_costs_s = 0.0011
    on.loop.run_events()
    assert len(watcher.transport.output) < 1_000_000
    assert on.loop.queued_turns == 1, "it goes on by itself"
    assert on.loop.interest[watcher.transport.descriptor] == READ
    on.loop.settle()
    assert len(watcher.heard()) == 20
    assert watcher.viewer.is_in_step


# Skipping.


def lagging(on: StreamStage) -> Watcher:
    """A viewer that takes nothing while three GOPs of three segments each go by."""
    watcher = in_step(on)
    watcher.transport.room_bytes = 0
    for gop in range(1, 4):
        on.send(key(gop * 1000, f"k{gop}".encode() + bytes(1000)), flushes_each=True)
        for number in range(2):
            on.send(inter(gop * 1000 + number, f"i{gop}".encode() + bytes(1000)))
    return watcher


def test_one_whose_place_is_gone_goes_on_at_the_newest_key_frame() -> None:
    on = published(limits=SMALL_SEGMENTS)
    watcher = lagging(on)
    lost_at = watcher.viewer.position
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard() == ["metadata", "avc", "aac", "k3", "i3", "i3"]
    assert watcher.viewer.is_in_step
    newest = on.stream.log.newest_point
    assert newest is not None
    assert on.notes.skips == [newest.position - lost_at]
    assert (watcher.viewer.skips, watcher.viewer.skipped_bytes) == (1, newest.position - lost_at)


def test_one_that_skips_finishes_the_message_in_hand_first() -> None:
    on = published(limits=SMALL_SEGMENTS)
    watcher = in_step(on)
    watcher.transport.room_bytes = 40
    on.send(inter(80, b"i2" + bytes(500)))
    for gop in range(1, 4):
        on.send(key(gop * 1000, f"k{gop}".encode() + bytes(1000)), flushes_each=True)
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard() == ["i2", "metadata", "avc", "aac", "k3"]


def test_one_that_skips_where_no_key_frame_is_waits_for_one() -> None:
    on = StreamStage(limits=SMALL_SEGMENTS)
    on.begin()
    on.send(video_setup(), key(0, b"k0"))
    watcher = in_step(on)
    watcher.transport.room_bytes = 0
    on.send(inter(40, b"i1"))
    on.stream.log.forget_entry_points()
    on.stream.log.drop_everything()
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard() == []
    on.send(inter(80, b"i2"))
    on.send(key(120, b"k3"))
    assert watcher.heard() == ["metadata", "avc", "k3"]
    assert watcher.viewer.skips == 1
