"""Meters: figures of streams that can be worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.figures import ROUND_BOUNDS_S
from penstock.media.frame import FrameKind
from penstock.relay.readable_log import Flush
from penstock.relay.segment import Entry, MemoryBuffer, Segment
from penstock.serve.sending.round_times import RoundTimes
from penstock.serve.telemetry.meter import Meters, StreamMeter, StreamTotals
from tests.serve.live_server import audio_frame, inter_frame, key_frame, live_server, wait_until
from tests.support.rtmp_driver import rtmp_client

AUDIO, VIDEO, DATA = FrameKind.AUDIO, FrameKind.VIDEO, FrameKind.DATA


def entry(
    kind: FrameKind, timestamp_ms: int, payload_bytes: int = 100, *, is_key: bool = False, is_setup: bool = False
) -> Entry:
    return Entry(0, payload_bytes + 12, kind, timestamp_ms, payload_bytes, is_key, is_setup)


def flush_of(*entries: Entry) -> Flush:
    size = sum(each.encoded_bytes for each in entries)
    return Flush(Segment(MemoryBuffer(), 0, 0.0), 0, size, list(entries), [])


def second_of_video(start_ms: int) -> list[Entry]:
    """25 frames of 1000 bytes, a key frame first, and 50 audio frames of 100."""
    frames: list[Entry] = []
    for number in range(25):
        at_ms = start_ms + 40 * number
        frames.append(entry(VIDEO, at_ms, 1000, is_key=number == 0))
        frames += [entry(AUDIO, at_ms), entry(AUDIO, at_ms + 20)]
    return frames


def test_a_second_of_video_gives_its_figures() -> None:
    meter = StreamMeter(10.0)
    meter.on_flush(flush_of(*second_of_video(0)), 10.5)
    figures = meter.sample(11.0)
    assert figures.interval_s == 1.0
    assert figures.bitrate_bps == (25 * 1000 + 50 * 100) * 8
    assert figures.fps == 25
    assert figures.timestamp_jumps == 0
    assert figures.keyframe_interval_ms is None
    assert meter.totals == StreamTotals(30_000, 75, 25, 50, 1, 0)


def test_a_sample_is_about_the_time_since_the_last_one() -> None:
    meter = StreamMeter(10.0)
    meter.on_flush(flush_of(*second_of_video(0)), 10.5)
    meter.sample(11.0)
    figures = meter.sample(13.0)
    assert (figures.interval_s, figures.bitrate_bps, figures.fps, figures.av_skew_ms) == (2.0, 0, 0, None)
    meter.on_flush(flush_of(*second_of_video(1000)), 13.5)
    assert meter.sample(14.0).fps == 25
    assert meter.totals.video_frames == 50


def test_the_key_frame_interval_is_that_of_the_last_two() -> None:
    meter = StreamMeter(0.0)
    meter.on_flush(flush_of(*second_of_video(0), *second_of_video(1000), *second_of_video(3000)), 3.0)
    assert meter.sample(4.0).keyframe_interval_ms == 2000
    assert meter.totals.keyframes == 3


def test_set_up_counts_as_bytes_and_messages_but_not_as_frames() -> None:
    meter = StreamMeter(0.0)
    config = [entry(kind, 77_000, 50, is_setup=True) for kind in (DATA, VIDEO, AUDIO)]
    meter.on_flush(flush_of(*config, entry(DATA, 0, 10)), 0.0)
    assert meter.totals == StreamTotals(160, 4, 0, 0, 0, 0)
    figures = meter.sample(1.0)
    assert (figures.media_ms, figures.wall_ms, figures.av_skew_ms) == (None, None, None)


@pytest.mark.parametrize(
    ("timestamps_ms", "jumps"),
    [((0, 1000, 2000), 0), ((0, 1001), 1), ((100, 99), 1), ((100, 100), 0), ((5000, 0, 40, 9000), 2)],
)
@pytest.mark.parametrize("kind", [AUDIO, VIDEO])
def test_timestamps_jump_by_more_than_a_second_or_back(
    kind: FrameKind, timestamps_ms: tuple[int, ...], jumps: int
) -> None:
    meter = StreamMeter(0.0)
    meter.on_flush(flush_of(*(entry(kind, each) for each in timestamps_ms)), 0.0)
    assert meter.sample(1.0).timestamp_jumps == jumps
    assert meter.sample(2.0).timestamp_jumps == 0
    assert meter.totals.timestamp_jumps == jumps


def test_audio_and_video_do_not_jump_against_each_other() -> None:
    meter = StreamMeter(0.0)
    meter.on_flush(flush_of(entry(VIDEO, 0), entry(AUDIO, 5000), entry(VIDEO, 40), entry(AUDIO, 5020)), 0.0)
    assert meter.totals.timestamp_jumps == 0
    assert meter.sample(1.0).av_skew_ms == -4960


def test_the_skew_is_the_average_over_video_frames_that_had_audio_before_them() -> None:
    meter = StreamMeter(0.0)
    meter.on_flush(flush_of(entry(VIDEO, 0), entry(AUDIO, 0), entry(VIDEO, 40), entry(AUDIO, 20)), 0.0)
    meter.on_flush(flush_of(entry(VIDEO, 80)), 0.1)
    assert meter.sample(1.0).av_skew_ms == (40 + 60) / 2


def test_media_time_is_set_against_wall_time() -> None:
    meter = StreamMeter(100.0)
    meter.on_flush(flush_of(entry(VIDEO, 5000)), 103.0)
    meter.on_flush(flush_of(entry(VIDEO, 5900)), 104.0)
    figures = meter.sample(105.0)
    assert (figures.media_ms, figures.wall_ms) == (900, 1000)


def test_a_stream_without_video_has_the_time_of_its_audio() -> None:
    meter = StreamMeter(0.0)
    meter.on_flush(flush_of(entry(AUDIO, 0)), 0.0)
    meter.on_flush(flush_of(entry(AUDIO, 500)), 0.5)
    assert meter.sample(1.0).media_ms == 500


@given(st.lists(st.integers(1, 10)))
def test_counts_do_not_depend_on_how_frames_are_flushed(sizes: list[int]) -> None:
    frames = second_of_video(0) + second_of_video(2500)
    whole, parts = StreamMeter(0.0), StreamMeter(0.0)
    whole.on_flush(flush_of(*frames), 1.0)
    position = 0
    for size in [*sizes, len(frames)]:
        parts.on_flush(flush_of(*frames[position : position + size]), 1.0)
        position += size
    assert parts.totals == whole.totals
    assert parts.sample(2.0)._replace(media_ms=None) == whole.sample(2.0)._replace(media_ms=None)


@pytest.mark.parametrize(
    ("duration_s", "bucket"),
    [(0.0, 0), (ROUND_BOUNDS_S[0], 0), (0.0011, 13), (1.0, len(ROUND_BOUNDS_S) - 1), (1.1, len(ROUND_BOUNDS_S))],
)
def test_a_round_falls_into_the_bucket_of_the_first_bound_that_holds_it(duration_s: float, bucket: int) -> None:
    rounds = RoundTimes()
    rounds.observe(duration_s)
    assert rounds.counts.index(1) == bucket
    assert (sum(rounds.counts), rounds.sum_s) == (1, duration_s)


def test_each_publication_of_a_live_server_is_counted_once() -> None:
    meters = Meters()
    with live_server(meters) as live:
        for _ in range(2):
            with rtmp_client(live.port) as publisher:
                publisher.publish("counted")
                publisher.send([key_frame(0), audio_frame(10), inter_frame(40)])
                publisher.end()
                wait_until(lambda: not live.ask(lambda: live.server.broker.streams))
        assert (meters.messages, meters.received_bytes) == (6, 2 * 2100)


def test_rounds_that_send_to_viewers_are_timed() -> None:
    with live_server() as live, rtmp_client(live.port) as publisher, rtmp_client(live.port) as viewer:
        publisher.publish("timed")
        viewer.play("timed")
        rounds = live.server.flusher.rounds
        assert sum(rounds.counts) == 0
        publisher.send([key_frame(0)])
        wait_until(lambda: sum(rounds.counts) == 1)
        assert 0 < rounds.sum_s < 1


def test_a_publisher_that_comes_back_is_a_new_publication() -> None:
    meters = Meters()
    with live_server(meters) as live:
        for number in (1, 2):
            with rtmp_client(live.port) as publisher:
                publisher.publish("again")
                publisher.send([key_frame(0)])
                wait_until(lambda number=number: meters.messages == number)  # type: ignore[misc]
                (live_stream,) = live.ask(lambda: list(live.server.broker.streams.values()))
                assert meters.of(live_stream).totals.messages == 1
                assert len(live_stream.listeners) == 1
            wait_until(lambda: not live.ask(lambda: live_stream.is_live))  # noqa: B023
