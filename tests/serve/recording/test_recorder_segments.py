"""One recording: where files begin and end, what is in them, and what the manifest says of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.media.flv_metadata import read_flv_metadata
from penstock.serve.boot import Boot
from penstock.serve.recording.archive import SegmentLimits
from penstock.serve.recording.manifest import SegmentStatus
from tests.serve.recording.recording_stage import (
    METADATA,
    OTHER_AUDIO_SETUP,
    OTHER_VIDEO_SETUP,
    Stage,
    audio,
    audio_setup,
    inter,
    key,
    metadata,
    video_setup,
)
from tests.support.samples import AUDIO, DATA, VIDEO, Sample, flv_samples, shifted

ANY_AGE = SegmentLimits(min_small_s=0.0)
SHORT = SegmentLimits(max_s=1.0, min_small_s=0.0)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_stream_is_recorded_to_the_byte(stage: Stage) -> None:
    sent = [video_setup(), audio_setup(), key(0), audio(5), inter(40), audio(28), key(80, 5000), inter(120)]
    stage.send(metadata(), *sent)
    stage.end()
    (row,) = stage.journal.closed
    assert stage.recorded(row) == sent
    assert (stage.folder / row.path).name == "live_test_20251001_120000.flv"


def test_metadata_of_the_publisher_is_at_the_beginning(stage: Stage) -> None:
    stage.send(metadata(), video_setup(), key(0), key(2000))
    stage.end()
    script = flv_samples(stage.folder / stage.journal.closed[0].path)[0]
    assert (script.type_id, script.timestamp_ms) == (DATA, 0)
    name, members = read_flv_metadata(script.payload) or ("", None)
    assert name == "onMetaData"
    assert isinstance(members, dict)
    assert (members["title"], members["duration"], members["videocodecid"]) == ("show", 2.0, 7.0)


def test_the_row_says_what_is_in_the_file(stage: Stage) -> None:
    stage.send(metadata(), video_setup(), audio_setup(), key(500), audio(520), key(1500), inter(1540))
    stage.now += 10.0
    stage.end()
    opened, closed = stage.rows()
    assert (opened.status, opened.path, opened.bytes) == (SegmentStatus.OPEN, closed.path, 0)
    assert closed == stage.journal.closed[0]
    assert closed.status is SegmentStatus.CLOSED
    assert (closed.recording_id, closed.segment, closed.app, closed.stream) == ("one", 1, "live", "test")
    assert (closed.started_at.isoformat(), closed.duration_ms) == ("2025-10-01T12:00:00+00:00", 1040)
    assert closed.ended_at is not None
    assert closed.ended_at.isoformat() == "2025-10-01T12:00:10+00:00"
    assert closed.bytes == (stage.folder / closed.path).stat().st_size
    assert (closed.keyframes, closed.gaps, closed.reason) == (2, (), None)
    assert (closed.first_timestamp_ms, closed.last_timestamp_ms) == (500, 1540)
    assert (closed.video, closed.audio) == ("H.264 AVC", "AAC-LC 44.1 kHz stereo")


def test_the_time_of_day_is_that_of_the_first_message_not_of_writing_it(stage: Stage) -> None:
    stage.append(video_setup(), key(0))
    stage.now += 25.0
    stage.write()
    stage.end()
    assert stage.journal.closed[0].started_at.isoformat() == "2025-10-01T12:00:00+00:00"


def test_a_file_begins_with_a_key_frame(stage: Stage) -> None:
    stage.send(video_setup(), audio_setup(), inter(0), audio(10), key(40), audio(45))
    stage.end()
    (row,) = stage.journal.closed
    assert stage.recorded(row) == [video_setup(), audio_setup(), *shifted([key(40), audio(45)], -40)]
    assert [(each.type_id, each.timestamp_ms) for each in stage.recorded(row)[2:]] == [(VIDEO, 0), (AUDIO, 5)]
    assert row.gaps == ()


def test_a_file_without_video_begins_with_any_audio(stage: Stage) -> None:
    stage.send(audio_setup(), audio(10), audio(33))
    stage.end()
    (row,) = stage.journal.closed
    assert [each.timestamp_ms for each in stage.recorded(row)] == [0, 0, 23]
    assert (row.video, row.audio, row.keyframes) == (None, "AAC-LC 44.1 kHz stereo", 0)


def test_video_that_begins_late_goes_into_the_same_file(stage: Stage) -> None:
    sent = [audio_setup(), audio(0), video_setup(timestamp_ms=0), key(20), audio(23)]
    stage.send(*sent)
    stage.end()
    (row,) = stage.journal.closed
    assert stage.recorded(row) == sent
    assert row.video is not None


def test_colours_that_follow_the_decoder_configuration_do_not_hide_what_it_says(stage: Stage) -> None:
    # An AV1 picture of 320x180, and its colours behind it, as FFmpeg sends them.
    av1 = Sample(VIDEO, 0, bytes.fromhex("90 61763031 81000c00 0a0b000000043cfecc02f80040"))
    colours = Sample(VIDEO, 0, bytes.fromhex("94 61763031 020009 636f6c6f72496e666f 03 0000 09"))
    stage.send(av1, colours, Sample(VIDEO, 0, bytes.fromhex("91 61763031 1200")))
    stage.end()
    (row,) = stage.journal.closed
    assert row.video == "AV1 Main 2.0 320x180"


def test_codecs_without_set_up_are_described_by_their_frames(stage: Stage) -> None:
    stage.send(Sample(VIDEO, 0, b"\x12\x00\x00\x84\x00"), Sample(AUDIO, 0, b"\x2f\xff\xfb\x90"))
    stage.end()
    (row,) = stage.journal.closed
    assert (row.video, row.audio) == ("Sorenson H.263", "MP3 44.1 kHz stereo")


def test_a_stream_without_key_frames_is_recorded_after_a_while(stage: Stage) -> None:
    stage.send(video_setup(), *(inter(time_ms) for time_ms in range(0, 11_000, 1000)))
    stage.end()
    (row,) = stage.journal.closed
    assert row.first_timestamp_ms == 10_000


def test_a_message_older_than_the_file_gets_the_time_of_the_one_before(stage: Stage) -> None:
    stage.send(video_setup(), audio_setup(), key(100), audio(90), inter(140), audio(20), video_setup(timestamp_ms=0))
    stage.end()
    (row,) = stage.journal.closed
    assert [each.timestamp_ms for each in stage.recorded(row)] == [0, 0, 0, 0, 40, 40, 40]


def test_a_stream_that_ends_before_it_begins_leaves_nothing(stage: Stage) -> None:
    stage.send(metadata(), video_setup(), inter(0))
    stage.end()
    assert stage.rows() == []
    assert list(stage.folder.glob("*.flv")) == []


def test_other_data_is_recorded_and_metadata_within_the_file_is_not(stage: Stage) -> None:
    cue = Sample(DATA, 40, b"\x02\x00\x0aonCuePoint\x05")
    stage.send(video_setup(), key(0), cue, metadata(METADATA.replace(b"show", b"tell"), 50), inter(80))
    stage.end()
    (row,) = stage.journal.closed
    assert stage.recorded(row) == [video_setup(), key(0), cue, inter(80)]


# Files that follow each other.


def test_a_long_recording_goes_on_in_another_file_at_a_key_frame(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=SHORT)
    stage.send(metadata(), video_setup(), audio_setup(), key(5000), audio(5990), inter(6040))
    stage.send(key(6080), audio(6090), inter(6120))
    stage.end()
    first, second = stage.journal.closed
    assert stage.recorded(first)[2:] == shifted([key(5000), audio(5990), inter(6040)], -5000)
    assert [each.timestamp_ms for each in stage.recorded(first)] == [0, 0, 0, 990, 1040]
    assert [each.timestamp_ms for each in stage.recorded(second)] == [0, 0, 0, 10, 40]
    assert stage.recorded(second)[:2] == [video_setup(), audio_setup()]
    assert [(row.recording_id, row.segment, row.first_timestamp_ms) for row in (first, second)] == [
        ("one", 1, 5000),
        ("one", 2, 6080),
    ]
    assert second.path == "live_test_20251001_120000-2.flv"
    assert second.gaps == ()


def test_a_large_recording_goes_on_in_another_file_at_a_key_frame(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=SegmentLimits(max_bytes=45_000))
    stage.send(video_setup(), key(0), key(40), key(80, 10_000), inter(120), key(160), inter(200))
    stage.end()
    assert [row.first_timestamp_ms for row in stage.journal.closed] == [0, 160]


def test_without_video_any_audio_may_begin_a_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=SHORT)
    stage.send(audio_setup(), *(audio(time_ms) for time_ms in range(0, 3000, 250)))
    stage.end()
    assert [row.first_timestamp_ms for row in stage.journal.closed] == [0, 1000, 2000]


def test_a_changed_set_up_begins_another_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=ANY_AGE)
    stage.send(video_setup(), audio_setup(), key(0), inter(40))
    stage.send(video_setup(OTHER_VIDEO_SETUP, 80), audio(80), key(81), inter(120))
    stage.end()
    first, second = stage.journal.closed
    assert stage.recorded(first) == [video_setup(), audio_setup(), key(0), inter(40), audio(80)]
    recorded = stage.recorded(second)
    assert [each.payload for each in recorded[:2]] == [audio_setup().payload, OTHER_VIDEO_SETUP]
    assert [each.timestamp_ms for each in recorded] == [0, 0, 0, 39]


def test_a_changed_audio_set_up_takes_effect_in_place_and_ends_the_file_at_the_next_key_frame(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=ANY_AGE)
    changed = audio_setup(OTHER_AUDIO_SETUP, 40)
    stage.send(video_setup(), audio_setup(), key(0), audio(20), changed, inter(40), audio(43), key(80), audio(85))
    stage.end()
    first, second = stage.journal.closed
    assert stage.recorded(first) == [
        *(video_setup(), audio_setup(), key(0), audio(20), inter(40), changed),
        audio(43),
    ]
    assert [each.payload for each in stage.recorded(second)[:2]] == [video_setup().payload, OTHER_AUDIO_SETUP]
    assert second.first_timestamp_ms == 80
    assert second.audio == "AAC-LC 48 kHz stereo"


def test_the_same_set_up_again_changes_nothing(stage: Stage) -> None:
    sent = [video_setup(), key(0), video_setup(timestamp_ms=40), key(40), metadata(timestamp_ms=50), inter(80)]
    stage.send(*sent)
    stage.end()
    (row,) = stage.journal.closed
    assert stage.recorded(row) == [each for each in sent if each.type_id != DATA]


# However it is cut.


@settings(max_examples=30)
@given(data=st.data())
def test_however_messages_are_gathered_the_files_are_the_same(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    moments = data.draw(st.lists(st.sampled_from("kkiiiaasov"), max_size=40))
    samples = [video_setup(), audio_setup()]
    for number, moment in enumerate(moments):
        time_ms = number * 100
        samples.append(
            {
                "k": key(time_ms, 1500),
                "i": inter(time_ms),
                "a": audio(time_ms),
                "s": video_setup(timestamp_ms=time_ms),
                "o": video_setup(OTHER_VIDEO_SETUP, time_ms),
                "v": audio_setup(OTHER_AUDIO_SETUP, time_ms),
            }[moment]
        )
    cuts = data.draw(st.lists(st.integers(1, 9), min_size=1))
    boot = Boot("aaaaaaaa0001", "aaaaaaaa")
    one_by_one = Stage(tmp_path_factory.mktemp("single"), limits=SHORT, boot=boot)
    one_by_one.send(*samples)
    one_by_one.end()
    gathered = Stage(tmp_path_factory.mktemp("gathered"), limits=SHORT, boot=boot)
    position = 0
    while position < len(samples):
        size = cuts[position % len(cuts)]
        gathered.append(*samples[position : position + size])
        position += size
        if position % 3 == 0:
            gathered.write()
    gathered.write()
    gathered.end()
    first, second = (stage.journal.closed for stage in (one_by_one, gathered))
    assert [replace(row, path="") for row in first] == [replace(row, path="") for row in second]
    for row, other in zip(first, second, strict=True):
        recorded = one_by_one.recorded(row)
        assert recorded == gathered.recorded(other)
    # Whatever was sent from the first key frame on is in one of the files, in its order.
    media = [each.payload for each in samples if each.payload[1] == 1]
    recorded_media = [each.payload for row in first for each in one_by_one.recorded(row) if each.payload[1] == 1]
    assert recorded_media == media[len(media) - len(recorded_media) :]
