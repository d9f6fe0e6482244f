"""The same log for viewers with another message stream id, or without audio or video."""

import pytest

from penstock.media.frame import FrameKind
from penstock.relay.track_filter import TrackFilter
from tests.relay.support import audio, caption, fill, inter, key, messages_of, metadata, new_log


def test_the_shared_encoding_fits_only_one_who_wants_everything_on_stream_1() -> None:
    assert TrackFilter().is_everything
    assert not TrackFilter(2).is_everything
    assert not TrackFilter(wants_audio=False).is_everything
    assert not TrackFilter(wants_video=False).is_everything


@pytest.mark.parametrize(
    ("track_filter", "kinds"),
    [
        (TrackFilter(), [8, 9, 18]),
        (TrackFilter(wants_audio=False), [9, 18]),
        (TrackFilter(wants_video=False), [8, 18]),
        (TrackFilter(wants_audio=False, wants_video=False), [18]),
    ],
)
def test_data_is_always_wanted(track_filter: TrackFilter, kinds: list[int]) -> None:
    assert [int(kind) for kind in FrameKind if track_filter.wants(kind)] == kinds


def test_the_stream_id_is_the_only_thing_that_changes() -> None:
    shared = bytes.fromhex("06 ffffff 000002 09 01000000 01000000 2701")
    assert TrackFilter(2).fit(shared) == bytes.fromhex("06 ffffff 000002 09 02000000 01000000 2701")
    assert TrackFilter(0x01020304).fit(shared) == bytes.fromhex("06 ffffff 000002 09 04030201 01000000 2701")
    assert TrackFilter().fit(shared) is shared


@pytest.mark.parametrize("timestamp_ms", [0, 0xFFFFFE, 0xFFFFFF, 0xFFFFFFFF, 0x1_0000_0000])
def test_what_is_read_is_whole_messages_with_another_id(timestamp_ms: int) -> None:
    log = new_log()
    frames = [
        metadata(timestamp_ms),
        key(timestamp_ms, b"k" * 700),
        audio(timestamp_ms),
        inter(timestamp_ms, b"\xc6" * 129),
        caption(timestamp_ms),
    ]
    for frame in frames:
        log.append(frame, 0.0)
    flush = log.flush(0.0)
    assert flush is not None
    messages, tail_bytes = messages_of(TrackFilter(3, wants_audio=False).read(flush.segment, flush.entries))
    wanted = [frame for frame in frames if frame.kind != FrameKind.AUDIO]
    assert [(message.type_id, message.payload) for message in messages] == [(int(f.kind), f.payload) for f in wanted]
    assert {(message.stream_id, message.timestamp) for message in messages} == {(3, timestamp_ms & 0xFFFFFFFF)}
    assert tail_bytes == 0


def test_nothing_wanted_is_no_bytes() -> None:
    log = new_log()
    fill(log, [audio(0), audio(20)])
    segment = log.segment_at(0)
    assert segment is not None
    assert TrackFilter(wants_audio=False).read(segment, segment.entries) == b""
