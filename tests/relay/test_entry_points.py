"""Which places of a stream are remembered for those who begin, and how far back."""

import pytest

from penstock.relay.codec_config import CodecConfig
from penstock.relay.entry_points import EntryPoint, EntryPoints
from penstock.relay.log import StreamLog
from penstock.relay.readable_log import LogLimits
from tests.relay.support import audio, inter, key, metadata, new_log

LOOKBACK = LogLimits(lookback_s=5.5, min_segment_bytes=1000, max_segment_bytes=4000)


def points_every(gap_s: float, seconds: float, points: EntryPoints) -> None:
    for number in range(int(seconds / gap_s) + 1):
        points.add(EntryPoint(number, 0, CodecConfig(), number * gap_s))


def video(log: StreamLog, seconds: float, *, gop_s: float = 2.0, with_audio: bool = False) -> float:
    """A stream of 25 frames a second; the time of its last frame."""
    for number in range(int(seconds * 25)):
        now = number / 25
        log.append((key if number % round(gop_s * 25) == 0 else inter)(round(now * 1000)), now)
        if with_audio:
            log.append(audio(round(now * 1000)), now)
        log.flush(now)
    return now


def test_one_who_looks_back_begins_at_the_newest_place_that_is_far_enough_back() -> None:
    points = EntryPoints(max_points=2, max_age_s=10, lookback_s=5.5)
    points_every(2.0, 20.0, points)
    assert [point and point.at for point in (points.newest, points.back(5.5, 20.0))] == [20.0, 14.0]
    assert [point and point.at for point in (points.back(1.9, 20.0), points.back(2.1, 20.0))] == [18.0, 16.0]


def test_if_there_was_less_to_see_one_who_looks_back_begins_with_all_of_it() -> None:
    points = EntryPoints(max_points=2, max_age_s=10, lookback_s=5.5)
    points_every(1.0, 4.0, points)
    point = points.back(5.5, 4.0)
    assert point is not None
    assert point.at == 0.0


def test_a_flood_of_key_frames_is_not_a_flood_of_places() -> None:
    points = EntryPoints(max_points=2, max_age_s=10, lookback_s=5.5)
    points_every(0.001, 60.0, points)
    assert len(points._to_look_back) <= 13
    point = points.back(5.5, 60.0)
    assert point is not None
    assert 60.0 - point.at >= 5.5


def test_nobody_looks_further_back_than_the_log_is_kept() -> None:
    points = EntryPoints(max_points=2, max_age_s=3, lookback_s=5.5)
    points_every(1.0, 20.0, points)
    point = points.back(5.5, 20.0)
    assert point is not None
    assert point.at == 17.0


def test_a_stream_of_video_alone_is_kept_for_those_who_look_back() -> None:
    log = new_log(LOOKBACK)
    end = video(log, 20.0)
    point = log.lookback_point(end)
    assert point is not None
    assert end - point.at >= 5.5
    assert log.segment_at(point.position) is not None
    assert log.newest_point is not None
    assert log.newest_point.at > point.at


def test_a_stream_of_audio_alone_is_kept_for_those_who_look_back() -> None:
    log = new_log(LOOKBACK)
    for number in range(20 * 43):
        log.append(audio(number * 23), number * 0.023)
        log.flush(number * 0.023)
    point = log.lookback_point(number * 0.023)
    assert point is not None
    assert 5.5 <= number * 0.023 - point.at <= 7.0
    assert log.segment_at(point.position) is not None


def test_with_audio_and_video_and_metadata_everybody_begins_at_the_last_key_frame() -> None:
    log = new_log(LOOKBACK)
    log.append(metadata(0), 0.0)
    end = video(log, 20.0, with_audio=True)
    assert log.lookback_s == 0.0
    assert log.lookback_point(end) is None
    assert end - log.start / log.head * end < 6.0, "nothing more is kept than two GOPs need"


def test_when_audio_joins_video_nobody_looks_back_any_more() -> None:
    log = new_log(LOOKBACK)
    log.append(metadata(0), 0.0)
    end = video(log, 8.0)
    assert log.lookback_point(end) is not None
    log.append(audio(8000), end)
    assert log.lookback_point(end) is None


def test_without_metadata_some_frames_are_kept_for_those_who_look_back() -> None:
    log = new_log(LOOKBACK)
    end = video(log, 20.0, gop_s=1.0, with_audio=True)
    point = log.lookback_point(end)
    assert point is not None
    assert 45 / 25 <= end - point.at <= 45 / 25 + 1.0
    assert log.segment_at(point.position) is not None


def test_of_few_frames_a_second_more_time_is_looked_at() -> None:
    log = new_log(LOOKBACK)
    for number in range(10):
        log.append(key(number * 500), number * 0.5)
    assert log.lookback_s == pytest.approx(22.5)


def test_when_memory_is_short_nothing_is_kept_to_look_back_at() -> None:
    log = new_log(LOOKBACK)
    end = video(log, 20.0)
    log.cut_back()
    assert log.lookback_point(end) == log.newest_point


def test_what_a_lost_publisher_left_is_not_looked_back_at() -> None:
    log = new_log(LOOKBACK)
    video(log, 20.0)
    log.forget_entry_points()
    assert log.lookback_point(20.0) is None
