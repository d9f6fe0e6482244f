"""Fragments: literal bytes, what MP4 cannot say, and properties judged by a reader that shares no code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MisuseError
from penstock.media.fmp4_fragment import MAX_FRAGMENT_BYTES, Sample, TrackRun, fragment_head
from tests.support.mp4_reader import ReadSample, read_boxes, read_samples

KEY = Sample(timestamp_ms=1000, size=4, composition_ms=80, is_key=True)
INTER = Sample(timestamp_ms=1040, size=3, composition_ms=-40, is_key=False)
TONE = Sample(timestamp_ms=1005, size=2, composition_ms=0, is_key=True)


def whole(runs: list[TrackRun], sequence_number: int = 1) -> bytes:
    """A fragment with payloads that tell which sample they are of: the first byte counts."""
    samples = [sample for run in runs for sample in run.samples]
    payloads = [bytes((index % 256,)) * sample.size for index, sample in enumerate(samples)]
    return fragment_head(sequence_number, runs) + b"".join(payloads)


def test_a_fragment_of_two_tracks_is_these_bytes() -> None:
    head = fragment_head(7, [TrackRun(1, [KEY, INTER], 1080), TrackRun(2, [TONE], 1026)])
    assert head == bytes.fromhex(
        "000000c8 6d6f6f66"  # moof
        " 00000010 6d666864 00000000 00000007"  # mfhd
        " 00000060 74726166"  # traf
        " 00000010 74666864 00020000 00000001"  # tfhd
        " 00000014 74666474 01000000 00000000 000003e8"  # tfdt
        " 00000034 7472756e 01000f01 00000002 000000d0"  # trun
        " 00000028 00000004 02000000 00000050"
        " 00000028 00000003 01010000 ffffffd8"
        " 00000050 74726166"
        " 00000010 74666864 00020000 00000002"
        " 00000014 74666474 01000000 00000000 000003ed"
        " 00000024 7472756e 01000f01 00000001 000000d7"
        " 00000015 00000002 02000000 00000000"
        " 00000011 6d646174"  # mdat
    )


def test_a_sequence_number_beyond_32_bits_wraps() -> None:
    (moof, _) = read_boxes(whole([TrackRun(1, [KEY], 1040)], sequence_number=2**32 + 5))
    assert moof.find(b"mfhd").body.hex() == "00000000" + "00000005"


def test_a_time_beyond_32_bits_is_kept() -> None:
    (sample,) = read_samples(whole([TrackRun(1, [KEY._replace(timestamp_ms=2**32 + 8)], 2**32 + 48)]))
    assert (sample.dts, sample.pts, sample.duration) == (2**32 + 8, 2**32 + 88, 40)


def test_a_sample_before_its_predecessor_keeps_its_time_of_presentation() -> None:
    late = INTER._replace(timestamp_ms=990, composition_ms=50)
    first, second = read_samples(whole([TrackRun(1, [KEY, late], 1080)]))
    assert (first.dts, first.pts, first.duration) == (1000, 1080, 0)
    assert (second.dts, second.pts, second.duration) == (1000, 1040, 80)


def test_a_time_below_zero_is_decoded_at_zero() -> None:
    (sample,) = read_samples(whole([TrackRun(1, [KEY._replace(timestamp_ms=-5)], 20)]))
    assert (sample.dts, sample.pts, sample.duration) == (0, 75, 20)


def test_an_end_before_the_last_sample_is_its_own_time() -> None:
    (sample,) = read_samples(whole([TrackRun(1, [KEY], 900)]))
    assert (sample.dts, sample.duration) == (1000, 0)


@pytest.mark.parametrize("runs", [[], [TrackRun(1, [], 0)], [TrackRun(1, [KEY], 0), TrackRun(2, [], 0)]])
def test_a_fragment_without_samples_is_refused(runs: list[TrackRun]) -> None:
    with pytest.raises(MisuseError, match="without a sample"):
        fragment_head(1, runs)


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(MisuseError, match="an empty sample"):
        fragment_head(1, [TrackRun(1, [KEY, INTER._replace(size=0)], 1080)])


def test_a_fragment_that_its_offsets_cannot_reach_is_refused() -> None:
    runs = [TrackRun(1, [KEY._replace(size=MAX_FRAGMENT_BYTES)], 0), TrackRun(2, [TONE], 0)]
    with pytest.raises(MisuseError, match="1073741826 bytes"):
        fragment_head(1, runs)


@st.composite
def random_runs(draw: st.DrawFn) -> list[TrackRun]:
    runs = []
    for track_id in draw(st.sampled_from([[1], [2], [1, 2]])):
        at_ms = draw(st.integers(0, 2**40))
        samples = []
        for _ in range(draw(st.integers(1, 12))):
            composition_ms = draw(st.integers(-(2**23), 2**23 - 1)) if track_id == 1 else 0
            samples.append(Sample(at_ms, draw(st.integers(1, 40)), composition_ms, draw(st.booleans())))
            at_ms += draw(st.integers(0, 5000))
        runs.append(TrackRun(track_id, samples, at_ms))
    return runs


@given(random_runs())
def test_what_a_player_reads_is_what_was_written(runs: list[TrackRun]) -> None:
    read = list(read_samples(whole(runs)))
    written = [(run.track_id, sample) for run in runs for sample in run.samples]
    assert [(each.track_id, each.dts, each.pts - each.dts, each.is_sync, each.data) for each in read] == [
        (track_id, sample.timestamp_ms, sample.composition_ms, sample.is_key, bytes((index % 256,)) * sample.size)
        for index, (track_id, sample) in enumerate(written)
    ]


@given(random_runs())
def test_durations_add_up_to_the_time_of_the_run(runs: list[TrackRun]) -> None:
    by_track: dict[int, list[ReadSample]] = {}
    for sample in read_samples(whole(runs)):
        by_track.setdefault(sample.track_id, []).append(sample)
    for run in runs:
        assert sum(sample.duration for sample in by_track[run.track_id]) == run.end_ms - run.samples[0].timestamp_ms
