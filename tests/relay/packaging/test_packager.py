"""The packager: every frame in its part, the same bytes from everybody, and the truth about what is missing."""

from itertools import pairwise

import pytest

from penstock.media.fmp4_tracks import LeftOut
from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.follower import FollowerLimits
from penstock.relay.packaging.packager import Packager
from penstock.relay.packaging.parts import PackagedPart, SegmentEnd
from tests.media import setup_messages
from tests.relay.packaging.hls_player import playlists
from tests.relay.packaging.stage import Segment, Stage, audio, audio_setup, packaged, steady, video, video_setup
from tests.relay.support import CHUNK_SIZE
from tests.support.hls_checker import violations
from tests.support.mp4_reader import ReadSample, read_samples, sample_entries


def body_of(frame: Frame) -> bytes:
    return frame.payload[5 if frame.kind is FrameKind.VIDEO else 2 :]


def media_of(frames: list[Frame], kind: FrameKind) -> list[Frame]:
    return [frame for frame in frames if frame.kind is kind and not frame.is_setup]


def samples_of(stage: Stage, track_id: int, first: int = 0, last: int | None = None) -> list[ReadSample]:
    return [sample for sample in read_samples(stage.mp4(first, last)) if sample.track_id == track_id]


def shape(segment: Segment) -> tuple[int, list[bool], bool]:
    """Its number in the stream, which of its parts are gaps, and whether it is one."""
    assert segment.end is not None
    return segment.start.number - 1795015685, [part.is_gap for part in segment.parts], segment.end.is_gap


def test_every_frame_comes_out_once_with_its_bytes_and_times() -> None:
    frames = steady(5)
    stage = packaged(frames)
    for track_id, kind in ((1, FrameKind.VIDEO), (2, FrameKind.AUDIO)):
        assert [(sample.dts, sample.data, sample.is_sync) for sample in samples_of(stage, track_id)] == [
            (frame.timestamp_ms, body_of(frame), frame.is_key or kind is FrameKind.AUDIO)
            for frame in media_of(frames, kind)
        ]


def test_composition_times_are_kept() -> None:
    frames = [video_setup(), video(0, is_key=True, composition_ms=80), video(40, composition_ms=160)]
    frames += [video(80, composition_ms=0), video(120, composition_ms=-40)]
    samples = samples_of(packaged(frames), 1)
    assert [(sample.dts, sample.pts) for sample in samples] == [(0, 80), (40, 200), (80, 80), (120, 80)]


def test_pictures_last_until_the_next_and_sounds_as_long_as_their_neighbours() -> None:
    stage = packaged(steady(2.1))
    first = next(segment for segment in stage.segments)
    samples = list(read_samples(stage.mp4(0, 1)))
    pictures = [sample for sample in samples if sample.track_id == 1]
    assert all(before.dts + before.duration == after.dts for before, after in pairwise(pictures))
    assert pictures[-1].dts + pictures[-1].duration == 2000
    sounds = [sample for sample in samples if sample.track_id == 2]
    assert {sample.duration for sample in sounds} == {21, 22}
    assert first.end == SegmentEnd(1795015685, 2000, is_gap=False)


def test_pictures_at_an_odd_rate_leave_no_gap_between_parts() -> None:
    pictures = samples_of(packaged(steady(5, rate=24)), 1, 0, 1)
    assert all(before.dts + before.duration == after.dts for before, after in pairwise(pictures))
    assert pictures[-1].dts + pictures[-1].duration == 2500


def test_a_segment_without_a_key_frame_keeps_the_tracks_of_the_one_before() -> None:
    setup = frame_of(FrameKind.VIDEO, 0, setup_messages.VP9_PROFILE0_360P30)
    key = frame_of(FrameKind.VIDEO, 0, setup_messages.VP9_PROFILE0_KEY)
    inter = [frame_of(FrameKind.VIDEO, at_ms, setup_messages.VP9_PROFILE0_INTER) for at_ms in range(40, 11_000, 40)]
    stage = packaged([setup, key, *inter])
    first, second = (segment.start for segment in stage.segments)
    assert (first.is_independent, second.is_independent) == (True, False)
    assert first.init is not None
    assert second.init == first.init


def test_a_segment_lasts_as_long_as_its_parts() -> None:
    stage = packaged(steady(7, rate=24))
    for segment in stage.segments:
        assert segment.end is not None
        assert segment.end.duration_ms == sum(part.duration_ms for part in segment.parts)


def test_a_size_is_that_of_the_bytes() -> None:
    stage = packaged(steady(1))
    for segment in stage.segments:
        for part, payload in zip(segment.parts, segment.payloads, strict=True):
            assert part.size == len(part.boxes) + len(payload)


def test_batches_of_any_size_give_the_same() -> None:
    frames = steady(5)
    by_one = packaged(frames)
    at_once = Stage()
    for frame in frames:
        at_once.append(frame)
    at_once.flush()
    at_once.finish()
    assert at_once.mp4() == by_one.mp4()
    assert [part.number for part in at_once.parts] == [part.number for part in by_one.parts]


def test_a_packager_that_comes_late_gives_the_same_segments() -> None:
    frames = steady(8)
    whole = packaged(frames)
    late = Stage()
    late.publish(frames[:150])
    late.take()
    late.segments.clear()
    late.packager = Packager(CHUNK_SIZE)
    late.publish(frames[150:])
    late.finish()
    assert [segment.start for segment in late.segments] == [segment.start for segment in whole.segments[1:]]
    assert late.mp4() == whole.mp4(1)


def test_a_handover_is_a_discontinuity_and_the_part_before_it_ends_with_its_own_frames() -> None:
    stage = Stage()
    stage.publish(steady(2.5))
    stage.take()
    stage.boundaries.begin_anew()
    stage.log.begin_anew()
    stage.publish([video_setup(setup_messages.AVC_HIGH_1080P30), *steady(2.5, start_ms=9000, sounds=False)[1:]])
    stage.finish()
    starts = [(each.start.start_ms, each.start.is_discontinuous) for each in stage.segments]
    assert starts == [(0, False), (2000, False), (9000, True), (11_000, False)]
    assert stage.segments[1].end == SegmentEnd(1795015686, 501, is_gap=False)
    inits = [segment.start.init for segment in stage.segments]
    assert [init.codec_strings for init in inits if init is not None] == [
        ("avc1.42c00b", "mp4a.40.2"),
        ("avc1.42c00b", "mp4a.40.2"),
        ("avc1.640028",),
        ("avc1.640028",),
    ]
    assert inits[0] is not None
    assert inits[2] is not None
    assert inits[0].name != inits[2].name
    assert (inits[2].width_px, inits[2].height_px) == (1920, 1080)
    assert violations(playlists(stage, 2)) == []


def test_another_codec_in_the_middle_begins_a_segment_with_an_init_of_its_own() -> None:
    change = [video_setup(setup_messages.AVC_HIGH_1080P30, 500), video(500, is_key=True), video(533)]
    stage = packaged([*steady(0.5), *change])
    first, second = (segment.start for segment in stage.segments)
    assert (second.is_discontinuous, second.discontinuity - first.discontinuity) == (True, 1)
    assert second.init is not None
    assert second.init.codec_strings == ("avc1.640028", "mp4a.40.2")


def test_sound_that_comes_late_is_carried_from_the_next_segment_on() -> None:
    pictures = steady(5, sounds=False)
    sounds = [audio(at_ms) for at_ms in range(700, 5000, 21)]
    merged = sorted(pictures[1:] + sounds, key=lambda frame: frame.timestamp_ms)
    index = merged.index(sounds[0])
    stage = packaged([pictures[0], *merged[:index], audio_setup(), *merged[index:]])
    assert [len(sample_entries(stage.mp4(first, first + 1))) for first in range(3)] == [1, 2, 2]
    assert samples_of(stage, 2, 0, 1) == []
    assert samples_of(stage, 2, 1)[0].dts == 2002
    assert [segment.start.is_discontinuous for segment in stage.segments] == [False, True, False]


def test_sound_whose_set_up_changes_is_left_out_until_the_next_segment() -> None:
    frames = steady(4.1)
    index = next(index for index, frame in enumerate(frames) if frame.timestamp_ms >= 1000)
    stage = packaged([*frames[:index], audio_setup(setup_messages.AAC_LC_44K1_MONO, 1000), *frames[index:]])
    assert max(sample.dts for sample in samples_of(stage, 2, 0, 1)) < 1000
    assert min(sample.dts for sample in samples_of(stage, 2, 1)) == 2005
    assert [segment.start.is_discontinuous for segment in stage.segments] == [False, True, False]


def test_a_record_that_an_encoder_knows_only_behind_its_first_frame_is_taken() -> None:
    def av1(timestamp_ms: int, *, is_key: bool) -> Frame:
        return frame_of(FrameKind.VIDEO, timestamp_ms, (b"\x91" if is_key else b"\xa1") + b"av01\x32\x00picture")

    empty = frame_of(FrameKind.VIDEO, 0, setup_messages.AV1_EMPTY_SETUP)
    record = frame_of(FrameKind.VIDEO, 0, setup_messages.AV1_MAIN_360P30)
    later = [av1(at_ms, is_key=at_ms % 2000 == 0) for at_ms in range(40, 4040, 40)]
    stage = packaged([empty, av1(0, is_key=True), record, *later])
    assert [segment.start.is_discontinuous for segment in stage.segments] == [False, False, False]
    assert len(samples_of(stage, 1)) == 101


def test_what_mp4_cannot_carry_is_left_out_and_named() -> None:
    frames = steady(3, sounds=False)
    speex = [frame_of(FrameKind.AUDIO, at_ms, b"\xb6speex") for at_ms in range(0, 3000, 20)]
    stage = packaged([frames[0], *sorted(frames[1:] + speex, key=lambda frame: frame.timestamp_ms)])
    assert stage.segments[0].start.left_out == (LeftOut("Speex audio", "no player takes it in MP4"),)
    assert len(samples_of(stage, 1)) == 90


def test_other_tracks_than_the_first_are_left_out_and_named() -> None:
    extra = frame_of(FrameKind.VIDEO, 0, b"\x96\x00avc1\x01" + setup_messages.AVC_HIGH_1080P30[5:])
    picture = frame_of(FrameKind.VIDEO, 10, b"\xa6\x03avc1\x01other picture")
    stage = packaged([extra, *steady(1)[:3], picture, *steady(1)[3:]])
    assert stage.segments[0].start.left_out == (LeftOut("video track 1", "only track 0 is packaged"),)
    assert len(samples_of(stage, 1)) == 30


def test_a_stream_of_nothing_that_mp4_carries_is_gaps() -> None:
    vp6 = [frame_of(FrameKind.VIDEO, at_ms, b"\x14key") for at_ms in range(0, 2500, 40)]
    stage = packaged(vp6)
    assert all(part.is_gap for part in stage.parts)
    start = stage.segments[0].start
    assert start.init is None
    assert start.left_out == (LeftOut("VP6 video", "no player takes it in MP4"),)


def test_sound_beside_pictures_that_mp4_cannot_carry_is_packaged_alone() -> None:
    vp6 = [
        frame_of(FrameKind.VIDEO, at_ms, b"\x14key" if at_ms % 2000 == 0 else b"\x24p") for at_ms in range(0, 4000, 40)
    ]
    sounds = [audio(round(number * 64 / 3)) for number in range(180)]
    stage = packaged([audio_setup(), *sorted(vp6 + sounds, key=lambda frame: frame.timestamp_ms)])
    assert len(samples_of(stage, 2)) == 180
    assert not any(part.is_gap for part in stage.parts)


def test_messages_without_a_frame_are_no_samples() -> None:
    ends = [
        frame_of(FrameKind.VIDEO, 500, b"\x17\x02\x00\x00\x00"),
        frame_of(FrameKind.AUDIO, 500, b""),
        frame_of(FrameKind.AUDIO, 500, b"\xaf\x01"),
        frame_of(FrameKind.VIDEO, 500, b"\x9fabcd"),
        frame_of(FrameKind.VIDEO, 500, b"\x57\x00"),
    ]
    stage = packaged([*steady(0.5), *ends])
    assert (len(samples_of(stage, 1)), len(samples_of(stage, 2))) == (15, 23)


def test_frames_of_the_time_before_a_jump_are_left_out_behind_it() -> None:
    frames = steady(1)
    after = [video(3_601_000, is_key=True), audio(1003), audio(3_601_010), video(3_601_033)]
    stage = packaged([*frames, *after])
    assert [sample.dts for sample in samples_of(stage, 2, 1)] == [3_601_010]
    assert stage.segments[1].start.is_discontinuous


def lossy(frames: list[Frame]) -> Stage:
    """A stream of which a follower had to drop the oldest GOPs, having room for about three seconds."""
    stage = Stage(limits=FollowerLimits(max_bytes=40_000))
    stage.publish(frames[:200])
    stage.take()
    for batch in stage._kept:
        stage.follower.done(batch)
    stage._kept.clear()
    stage.publish(frames[200:])
    assert stage.follower.dropped_messages > 0
    return stage


def test_missing_messages_are_gaps_to_the_end_of_their_segment() -> None:
    stage = lossy(steady(9))
    stage.finish()
    shapes = [shape(segment) for segment in stage.segments]
    assert [number for number, _, _ in shapes] == [0, 1, 2, 3, 4]
    assert [is_gap for _, _, is_gap in shapes] == [False, True, True, False, False]
    assert shapes[1][1] == [False] * 2 + [True] * 8
    assert shapes[2][1] == [True] * 10
    assert [part.duration_ms for part in stage.segments[2].parts] == [200] * 10
    assert violations(playlists(stage, 2)) == []


def test_missing_boundaries_are_filled_with_gaps_of_the_right_numbers() -> None:
    stage = lossy(steady(9))
    kept = next(index for index, each in enumerate(stage.stamped) if each.timestamp_ms == 6000)
    stage._given = kept
    stage.finish()
    shapes = [shape(segment) for segment in stage.segments]
    assert [(number, is_gap) for number, _, is_gap in shapes] == [
        (0, False),
        (1, True),
        (2, True),
        (3, False),
        (4, False),
    ]
    assert [segment.start.start_ms for segment in stage.segments][3:] == [6000, 8000]
    ends = [segment.end.duration_ms for segment in stage.segments if segment.end]
    assert sum(ends[:3]) == 6000
    assert violations(playlists(stage, 3)) == []


def test_a_segment_that_lost_its_first_messages_is_a_gap_though_others_of_its_first_part_are_there() -> None:
    stage = Stage()
    for frame in steady(2.1):
        stage.append(frame)
    stage.flush()
    (batch,) = stage.follower.take()
    torn = batch._replace(entries=batch.entries[5:], config=stage.log.config, dropped_messages=5)
    packaged_parts = [each for each in stage.packager.take(torn, stage.stamped) if isinstance(each, PackagedPart)]
    assert [part.is_gap for part in packaged_parts] == [True] * 10
    (whole,) = (each for each in stage.packager.finish() if isinstance(each, PackagedPart))
    assert not whole.is_gap


def test_boundaries_missing_in_the_middle_of_a_segment_are_filled_too() -> None:
    stage = Stage()
    stage.publish(steady(2.1))
    stage.stamped = [each for each in stage.stamped if each.part_index not in (3, 4)]
    stage.finish()
    first = stage.segments[0]
    assert [part.number - first.parts[0].number for part in first.parts] == list(range(10))
    assert [part.is_gap for part in first.parts] == [False, False] + [True] * 8
    assert sum(part.duration_ms for part in first.parts) == 2000


@pytest.mark.parametrize("cut", [1, 7, 128, 4096])
def test_ranges_of_the_log_are_the_payload_however_it_is_chunked(cut: int) -> None:
    body = bytes(index * 7 % 251 for index in range(cut * 3 + 1))
    stage = packaged([video_setup(), video(0, body, is_key=True), video(40, b"x")])
    (part,) = stage.parts
    assert stage.segments[0].payloads == [body + b"x"]
    assert isinstance(part, PackagedPart)
    assert len(part.ranges) == 1 + (len(body) + 5 - 1) // CHUNK_SIZE + 1
