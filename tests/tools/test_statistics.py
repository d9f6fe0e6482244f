"""What is told of a stream, from frames by literal bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.media.frame import FrameKind, frame_of
from penstock.tools.statistics import StreamStatistics, TrackStatistics
from tests.tools.frames import AUDIO_SETUP, KEY, METADATA, VIDEO_SETUP, audio, data, video


def track_at(*times_ms: int) -> TrackStatistics:
    track = TrackStatistics(FrameKind.VIDEO, 0, "codec", "text")
    for time_ms in times_ms:
        track.add_frame(time_ms, 1000)
    return track


def test_a_stream_is_told_by_its_setup_frames_and_metadata() -> None:
    statistics = StreamStatistics()
    for frame in [data(0), video(0, VIDEO_SETUP), audio(0, AUDIO_SETUP), video(1000, KEY), audio(1010), video(1040)]:
        statistics.add(frame)
    picture, sound = statistics.tracks.values()
    assert (picture.text, picture.width_px, picture.height_px) == ("H.264 Constrained Baseline 3.0 640x360", 640, 360)
    assert (sound.text, sound.sample_rate_hz, sound.channels) == ("AAC-LC 48 kHz stereo", 48000, 2)
    assert (picture.frames, picture.media_bytes, picture.keyframes) == (2, 95 + 45, 1)
    assert (sound.frames, sound.media_bytes) == (1, 20)
    assert statistics.metadata == {"width": 640.0, "title": "x"}
    assert (statistics.messages, statistics.malformed_messages) == (6, 0)
    assert statistics.payload_bytes == len(METADATA) + len(VIDEO_SETUP) + len(AUDIO_SETUP) + 100 + 22 + 50


def test_setup_does_not_move_the_clock() -> None:
    statistics = StreamStatistics()
    for frame in [video(5000, KEY), video(0, VIDEO_SETUP), video(5040)]:
        statistics.add(frame)
    assert statistics.duration_ms == 40
    assert [track.steps_back for track in statistics.tracks.values()] == [0]


def test_rates_count_the_last_frame_as_long_as_the_others() -> None:
    track = track_at(0, 40, 80, 120)
    assert (track.duration_ms, track.frames_per_second, track.bits_per_second) == (160, 25, 200_000)


@pytest.mark.parametrize("times_ms", [(), (0,), (7, 7)])
def test_a_track_without_length_has_no_rates(times_ms: tuple[int, ...]) -> None:
    track = track_at(*times_ms)
    assert (track.duration_ms, track.frames_per_second, track.bits_per_second) == (None, None, None)
    assert track.keyframe_interval_ms is None


@pytest.mark.parametrize(
    ("times_ms", "gaps", "longest_ms"),
    [
        ((0, 40, 80, 120), 0, None),
        ((0, 40, 80, 280, 320), 1, 200),
        ((0, 40, 80, 240, 280), 0, None),  # four times the usual step, but too short to be seen
        ((0, 1000, 2000, 5000, 6000), 0, None),  # one picture a second is slow, not broken
        ((0, 1000, 2000, 6000, 7000), 1, 4000),
        ((0, 40, 80, 1000, 1040, 3000), 2, 1960),
    ],
)
def test_a_gap_is_a_step_far_above_the_usual(times_ms: tuple[int, ...], gaps: int, longest_ms: int | None) -> None:
    track = track_at(*times_ms)
    assert (track.gaps, track.gap_max_ms) == (gaps, longest_ms)


def test_a_clock_that_starts_again_is_one_step_back() -> None:
    assert track_at(1000, 1040, 0, 40, 80).steps_back == 1


def test_key_frames_have_a_mean_and_a_longest_interval() -> None:
    statistics = StreamStatistics()
    for time_ms in (0, 1000, 4000):
        statistics.add(video(time_ms, KEY))
        statistics.add(video(time_ms + 40))
    (track,) = statistics.tracks.values()
    assert (track.keyframes, track.keyframe_interval_ms, track.keyframe_interval_max_ms) == (3, 2000, 3000)


def test_skew_is_how_far_the_picture_is_ahead() -> None:
    statistics = StreamStatistics()
    for frame in [video(0, KEY), audio(0), audio(300), video(40), video(320)]:
        statistics.add(frame)
    assert (statistics.skew_ms, statistics.skew_max_ms) == (20, -300)


def test_one_kind_alone_has_no_skew() -> None:
    statistics = StreamStatistics()
    statistics.add(video(0, KEY))
    assert (statistics.skew_ms, statistics.skew_max_ms) == (None, None)


def test_each_track_of_a_multitrack_message_is_counted() -> None:
    # Key, multitrack of many tracks, coded frames without offset, avc1; track 0 of 4 bytes and track 1 of 2.
    message = bytes.fromhex("9613 61766331 00 000004 00000001 01 000002 0000")
    # Audio of one track, Opus, track 2.
    sound = bytes.fromhex("9501 4f707573 02 aabbcc")
    statistics = StreamStatistics()
    statistics.add(frame_of(FrameKind.VIDEO, 0, message))
    statistics.add(frame_of(FrameKind.AUDIO, 0, sound))
    assert [(each.kind.name, each.track_id, each.codec, each.media_bytes) for each in statistics.tracks.values()] == [
        ("VIDEO", 0, "H.264 AVC", 4),
        ("VIDEO", 1, "H.264 AVC", 2),
        ("AUDIO", 2, "Opus", 3),
    ]
    assert [each.keyframes for each in statistics.tracks.values()] == [1, 1, 0]


def test_a_track_that_changes_its_codec_starts_anew() -> None:
    statistics = StreamStatistics()
    statistics.add(video(0, KEY))
    statistics.add(frame_of(FrameKind.VIDEO, 40, bytes.fromhex("9161763031 1234")))
    (track,) = statistics.tracks.values()
    assert (track.codec, track.frames) == ("AV1", 1)


def test_codecs_without_setup_tell_their_rate_in_the_frame() -> None:
    statistics = StreamStatistics()
    statistics.add(audio(0, bytes.fromhex("2fffe3")))
    (track,) = statistics.tracks.values()
    assert (track.text, track.sample_rate_hz, track.channels) == ("MP3 44.1 kHz stereo", 44100, 2)


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(FrameKind.VIDEO, 0, b""),
        frame_of(FrameKind.VIDEO, 0, b"\x1f"),
        frame_of(FrameKind.AUDIO, 0, b"\xc0"),
        frame_of(FrameKind.DATA, 0, METADATA[:20]),
    ],
)
def test_damaged_messages_are_counted(frame: object) -> None:
    statistics = StreamStatistics()
    statistics.add(frame)  # type: ignore[arg-type]
    assert statistics.malformed_messages == 1


def test_a_damaged_setup_record_leaves_the_name_of_the_codec() -> None:
    statistics = StreamStatistics()
    statistics.add(video(0, VIDEO_SETUP[:12]))
    assert [track.text for track in statistics.tracks.values()] == ["H.264 AVC"]


def test_data_that_is_no_metadata_is_only_counted() -> None:
    statistics = StreamStatistics()
    statistics.add(data(0, bytes.fromhex("02000a6f6e43756550 6f696e7405")))
    assert (statistics.messages, statistics.metadata, statistics.duration_ms) == (1, None, None)


@given(st.sampled_from(FrameKind), st.integers(0, 2**40), st.binary(max_size=60))
def test_no_payload_is_too_much(kind: FrameKind, timestamp_ms: int, payload: bytes) -> None:
    statistics = StreamStatistics()
    statistics.add(frame_of(kind, timestamp_ms, payload))
    assert statistics.messages == 1
