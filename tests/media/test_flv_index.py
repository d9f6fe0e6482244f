"""What first payload bytes mean for an index, and the figures gathered from tags."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.media.flv_index import FlvIndexer, is_key_video, is_timed_media

KEY = bytes.fromhex("1701")
INTER = bytes.fromhex("2701")
AVC_SEQUENCE_HEADER = bytes.fromhex("1700")
AAC_FRAME = bytes.fromhex("af01")


@pytest.mark.parametrize(
    ("start", "is_timed", "is_key"),
    [
        ("1701", True, True),  # AVC key frame
        ("2701", True, False),
        ("1700", False, False),  # AVC sequence header
        ("1702", False, False),  # AVC end of sequence
        ("4701", True, True),  # generated key frame
        ("1c01", True, True),  # HEVC by the id without a standard
        ("1c00", False, False),
        ("1200", True, True),  # Sorenson H.263 has no packet type: its second byte is data
        ("2200", True, False),
        ("9068", False, False),  # enhanced: sequence start
        ("9168", True, True),  # coded frames
        ("9368", True, True),  # coded frames without composition offset
        ("a168", True, False),
        ("a368", True, False),
        ("8368", True, False),  # frame type bits left at 0
        ("c168", True, True),
        ("9268", False, False),  # sequence end
        ("d468", False, False),  # metadata
        ("9561", False, False),  # AV1 set-up in MPEG-2 TS form
        ("9702", True, True),  # ModEx
        ("a702", True, False),
        ("9600", False, False),  # multitrack, one track: sequence start
        ("9601", True, False),  # one extra track
        ("9611", True, True),  # many tracks
        ("9621", True, True),  # many tracks, many codecs
        ("9610", False, False),
        ("a613", True, False),
        ("17", False, False),
        ("", False, False),
    ],
)
def test_two_bytes_tell_set_up_frames_and_key_frames_apart(start: str, is_timed: bool, is_key: bool) -> None:
    assert is_timed_media(9, bytes.fromhex(start)) is is_timed
    assert is_key_video(bytes.fromhex(start)) is is_key


@pytest.mark.parametrize(
    ("kind", "start", "is_timed"),
    [
        (8, "af00", False),  # AAC sequence header
        (8, "af01", True),
        (8, "2fff", True),  # MP3
        (8, "9000", False),  # enhanced: sequence start
        (8, "914f", True),
        (8, "9401", False),  # multichannel configuration
        (8, "9501", True),
        (8, "", True),  # silence
        (18, "0200", False),
        (15, "0002", False),
    ],
)
def test_audio_moves_the_clock_unless_it_is_set_up(kind: int, start: str, is_timed: bool) -> None:
    assert is_timed_media(kind, bytes.fromhex(start)) is is_timed


def test_duration_is_that_of_coded_media_alone() -> None:
    index = FlvIndexer()
    assert index.duration_ms == 0
    index.add_tag(18, 0, 13, b"\x02\x00", False)
    index.add_tag(9, 0, 100, AVC_SEQUENCE_HEADER, False)
    index.add_tag(9, 60_000, 200, KEY, True)
    index.add_tag(8, 60_010, 300, AAC_FRAME, False)
    index.add_tag(9, 0, 400, AVC_SEQUENCE_HEADER, False)
    index.add_tag(9, 61_000, 500, INTER, False)
    index.add_tag(8, 60_990, 600, AAC_FRAME, False)
    index.add_tag(18, 99_000, 700, b"\x02\x00", False)
    assert (index.duration_ms, index.first_ms, index.last_ms) == (1000, 60_000, 61_000)
    assert (index.has_audio, index.has_video) == (True, True)
    assert (index.keyframe_positions, index.keyframe_times_ms) == ([200], [60_000])


def test_the_index_runs_on_over_the_wrap_of_the_clock() -> None:
    index = FlvIndexer()
    index.add_tag(9, 0xFFFFFFFF - 999, 13, KEY, True)
    index.add_tag(9, 0, 1013, KEY, True)
    index.add_tag(9, 1000, 2013, KEY, True)
    assert index.keyframe_times_ms == [(1 << 32) - 1000, 1 << 32, (1 << 32) + 1000]
    assert index.duration_ms == 2000


def test_what_was_said_to_be_key_but_is_set_up_is_not_indexed() -> None:
    index = FlvIndexer()
    index.add_tag(9, 0, 13, AVC_SEQUENCE_HEADER, True)
    assert index.keyframe_positions == []


@pytest.mark.parametrize(
    ("keyframes", "kept"),
    [
        (4, [0, 1, 2, 3]),
        (5, [0, 2, 4]),
        (8, [0, 2, 4, 6]),
        (9, [0, 4, 8]),
        (17, [0, 8, 16]),
    ],
)
def test_an_index_without_room_keeps_every_second_then_every_fourth_key_frame(keyframes: int, kept: list[int]) -> None:
    index = FlvIndexer(keyframe_room=4)
    for ordinal in range(keyframes):
        index.add_tag(9, ordinal * 1000, ordinal * 100, KEY, True)
    assert index.keyframe_positions == [ordinal * 100 for ordinal in kept]
    assert index.keyframe_times_ms == [ordinal * 1000 for ordinal in kept]


@settings(max_examples=60)
@given(st.integers(0, 300), st.integers(0, 40))
def test_an_index_never_outgrows_its_room_and_always_keeps_the_first(keyframes: int, room: int) -> None:
    index = FlvIndexer(room)
    for ordinal in range(keyframes):
        index.add_tag(9, ordinal, ordinal, KEY, True)
    assert len(index.keyframe_positions) == len(index.keyframe_times_ms) <= max(room, 1)
    assert index.keyframe_positions[:1] == list(range(keyframes))[:1]
    assert len(index.keyframe_positions) >= min(keyframes, room) / 2
