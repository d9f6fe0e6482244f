"""Random streams: whatever the times, key frames, B-frames and flushes, no frame is lost and playlists are right."""

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.media.frame import Frame, FrameKind
from penstock.relay.packaging.boundaries import BoundaryRule
from tests.relay.packaging.hls_player import playlists
from tests.relay.packaging.stage import Stage, audio, audio_setup, video, video_setup
from tests.support.hls_checker import violations
from tests.support.mp4_reader import read_samples

RULES = st.builds(BoundaryRule, part_ms=st.sampled_from([200, 300, 500]), min_segment_ms=st.sampled_from([500, 1000]))


def in_order(media: list[Frame]) -> list[Frame]:
    ordered = sorted(media, key=lambda frame: (frame.timestamp_ms, frame.kind is FrameKind.AUDIO))
    return [video_setup(), audio_setup(), *ordered]


def wild_stream(seed: int) -> list[Frame]:
    """Pictures and sounds at any distance, key frames anywhere but for the first."""
    chance = random.Random(seed)
    start_ms = chance.randrange(2**34)
    media: list[Frame] = []
    at_ms = start_ms
    for number in range(chance.randrange(2, 60)):
        is_key = number == 0 or chance.random() < 0.05
        body = b"picture %d" % number * chance.randint(1, 30)
        media.append(video(at_ms, body, is_key=is_key, composition_ms=chance.randint(-100, 200)))
        at_ms += chance.choice([0, 1, 17, 33, 40, 300])
    sound_ms = start_ms
    while sound_ms < at_ms:
        media.append(audio(sound_ms, b"sound %d" % sound_ms))
        sound_ms += chance.choice([1, 20, 21, 24, 120])
    return in_order(media)


def steady_stream(seed: int) -> list[Frame]:
    """Pictures at some rate and sounds at another, each a millisecond early or late."""
    chance = random.Random(seed)
    start_ms = chance.randrange(2**34)
    interval_ms, sound_interval_ms = chance.uniform(16, 50), chance.uniform(20, 24)
    gop = chance.randint(10, 80)
    length_ms = chance.uniform(1000, 2500)
    media = [
        video(start_ms + round(number * interval_ms) + chance.randint(0, 1), b"picture", is_key=number % gop == 0)
        for number in range(int(length_ms / interval_ms))
    ]
    media += [
        audio(start_ms + 1 + round(number * sound_interval_ms) + chance.randint(0, 1))
        for number in range(int(length_ms / sound_interval_ms))
    ]
    return in_order(media)


SEEDS = st.integers(0, 2**32)


def run(frames: list[Frame], rule: BoundaryRule, flush_every: int) -> Stage:
    stage = Stage(rule)
    for index, frame in enumerate(frames):
        stage.append(frame)
        if index % flush_every == 0:
            stage.flush()
            stage.take()
    stage.flush()
    stage.finish()
    return stage


@given(SEEDS, RULES, st.integers(1, 40))
def test_no_frame_is_lost_or_moved(seed: int, rule: BoundaryRule, flush_every: int) -> None:
    frames = wild_stream(seed)
    stage = run(frames, rule, flush_every)
    read = list(read_samples(stage.mp4()))
    for track_id, kind, header_bytes in ((1, FrameKind.VIDEO, 5), (2, FrameKind.AUDIO, 2)):
        sent = [frame for frame in frames if frame.kind is kind and not frame.is_setup]
        mine = [sample for sample in read if sample.track_id == track_id]
        assert [sample.data for sample in mine] == [frame.payload[header_bytes:] for frame in sent]
        assert [sample.dts for sample in mine] == [frame.timestamp_ms for frame in sent]
        if kind is FrameKind.VIDEO:
            offsets = [int.from_bytes(frame.payload[2:5], "big", signed=True) for frame in sent]
            assert [sample.pts - sample.dts for sample in mine] == offsets
    assert [part.number for part in stage.parts] == list(
        range(stage.parts[0].number, stage.parts[0].number + len(stage.parts))
    )
    assert all(
        sum(part.duration_ms for part in each.parts) == each.end.duration_ms for each in stage.segments if each.end
    )


@given(SEEDS, RULES, st.integers(1, 40))
def test_playlists_of_a_steady_stream_keep_every_rule(seed: int, rule: BoundaryRule, flush_every: int) -> None:
    stage = run(steady_stream(seed), rule, flush_every)
    if stage.packager.part_target_ms is None:
        return
    assert violations(playlists(stage, 10)) == []


@given(SEEDS, st.integers(1, 40), st.integers(1, 40))
def test_how_it_was_flushed_does_not_show(seed: int, first: int, second: int) -> None:
    one, other = (run(wild_stream(seed), BoundaryRule(), flush_every) for flush_every in (first, second))
    assert one.mp4() == other.mp4()
    assert [segment.start for segment in one.segments] == [segment.start for segment in other.segments]
