"""One recorded file to its archive: what is made, what is made again, and what is said of files that are not whole."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.pipeline.jobs.archive_row import ArchiveOptions, ArchiveRow
from penstock.pipeline.jobs.one_segment import archive_segment
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.sources.flv.manifest import Segment
from tests.pipeline.jobs.recorded import STARTED_AT_US, codecs, decoding_errors, flv_bytes, packets, retimed, segment_of
from tests.support.samples import flv_samples

OPTIONS = ArchiveOptions(hls_segment_s=2, thumbnail_every_s=2, thumbnail_width_px=64)


class Stage:
    """A folder of recordings and an archive."""

    def __init__(self, folder: Path, data: bytes) -> None:
        self.recordings = folder / "recordings"
        self.recordings.mkdir()
        self.archive = folder / "archive"
        self.file = self.recordings / "show.flv"
        self.write(data)

    def write(self, data: bytes, at_s: int = 1_000_000_000) -> None:
        self.file.write_bytes(data)
        os.utime(self.file, (at_s, at_s))

    def run(self, options: ArchiveOptions = OPTIONS, segment: Segment | None = None) -> ArchiveRow:
        segment = segment or segment_of(self.file)
        return archive_segment(segment, Storage(self.recordings), Storage(self.archive), options)

    def files(self) -> dict[str, int]:
        """Every file of the archive, and when it was written."""
        found = (path for path in self.archive.rglob("*") if path.is_file())
        return {path.relative_to(self.archive).as_posix(): path.stat().st_mtime_ns for path in found}


@pytest.fixture
def short(recording: Path) -> bytes:
    """The first four seconds of a recording, as the server would have written them."""
    return flv_bytes(sample for sample in flv_samples(recording) if sample.timestamp_ms < 4000)


@pytest.fixture
def stage(tmp_path: Path, short: bytes) -> Stage:
    return Stage(tmp_path, short)


def test_folders_may_have_names_that_look_like_globs(tmp_path: Path, short: bytes) -> None:
    odd = tmp_path / "show [1] *what?* %d"
    odd.mkdir()
    stage = Stage(odd, short)
    row = stage.run()
    assert (row.status, row.reason, row.hls_segments, row.thumbnails) == ("archived", None, 2, 2)
    assert row.mp4_path is not None
    assert {row.mp4_path, row.hls_path, row.sheet_path} <= stage.files().keys()
    assert codecs(stage.archive / row.mp4_path) == ["h264", "aac"]


def test_a_whole_recording_gets_everything(stage: Stage, short: bytes) -> None:
    row = stage.run()
    assert row == ArchiveRow(
        path="show.flv",
        app="live",
        stream="show",
        recording_id="rec",
        segment=0,
        started_at_us=STARTED_AT_US,
        recipe="version 1, HLS by 2 s, thumbnails by 2 s of 64 px",
        video="H.264",
        audio="AAC",
        status="archived",
        reason=None,
        bytes=len(short),
        modified_at_us=1_000_000_000_000_000,
        tags=row.tags,
        duration_ms=row.duration_ms,
        keyframes=8,
        keyframe_index="right",
        mp4_path="live/show/rec-0/recording.mp4",
        mp4_bytes=(stage.archive / "live/show/rec-0/recording.mp4").stat().st_size,
        hls_path="live/show/rec-0/hls/index.m3u8",
        hls_bytes=sum(path.stat().st_size for path in (stage.archive / "live/show/rec-0/hls").iterdir()),
        hls_segments=2,
        sheet_path="live/show/rec-0/sheet.jpg",
        thumbnails=2,
    )
    assert sorted(stage.files()) == [
        "live/show/rec-0/archive.json",
        "live/show/rec-0/hls/00000.m4s",
        "live/show/rec-0/hls/00001.m4s",
        "live/show/rec-0/hls/index.m3u8",
        "live/show/rec-0/hls/init.mp4",
        "live/show/rec-0/recording.mp4",
        "live/show/rec-0/sheet.jpg",
        "live/show/rec-0/thumbnails/000000046.jpg",
        "live/show/rec-0/thumbnails/000002046.jpg",
    ]
    assert stage.file.read_bytes() == short


def test_what_is_done_is_not_done_again(stage: Stage) -> None:
    row = stage.run()
    files = stage.files()
    assert stage.run() == row
    assert stage.files() == files
    stage.file.unlink()
    assert stage.run() == row
    assert stage.files() == files


def test_a_changed_recording_is_made_anew_and_leaves_nothing_behind(stage: Stage, recording: Path) -> None:
    stage.run()
    samples = [sample for sample in flv_samples(recording) if sample.timestamp_ms < 1000]
    stage.write(flv_bytes(samples), at_s=1_000_000_001)
    row = stage.run()
    assert (row.hls_segments, row.thumbnails, row.keyframes) == (1, 1, 2)
    assert len(stage.files()) == 7
    # A clock may stand still; the size tells it then.
    stage.write(flv_bytes(samples[:-1]), at_s=1_000_000_001)
    assert stage.run().tags == row.tags - 1


def test_another_recipe_or_a_lost_output_is_made_anew(stage: Stage) -> None:
    stage.run()
    assert stage.run(replace(OPTIONS, hls_segment_s=1)).hls_segments == 4
    (stage.archive / "live/show/rec-0/hls/00003.m4s").unlink()
    row = stage.run(replace(OPTIONS, hls_segment_s=1))
    assert (stage.archive / "live/show/rec-0/hls/00003.m4s").exists()
    assert row.hls_segments == 4


def test_a_torn_recording_is_archived_up_to_its_last_whole_tag(stage: Stage, short: bytes) -> None:
    segment = segment_of(stage.file)
    stage.write(short[:-30_000])
    row = stage.run(segment=segment)
    assert (row.status, row.keyframe_index) == ("damaged", "wrong")
    assert row.reason is not None
    assert row.reason.endswith(f"; its key frame index is wrong; the manifest says {len(short)} bytes")
    assert (row.damaged_places, 0 < row.damaged_bytes < 30_000) == (1, True)
    mp4 = stage.archive / str(row.mp4_path)
    assert decoding_errors(mp4) == ""
    assert len(packets(mp4, "v")) < 40
    assert stage.file.stat().st_size == len(short) - 30_000


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no recording at all", "signature b'no ' is not b'FLV'"),
        (b"", "0 bytes hold no file header of 9"),
        (flv_bytes([]), "it has neither video nor audio"),
    ],
    ids=["noise", "empty", "head"],
)
def test_an_unusable_file_is_a_row_that_says_why(stage: Stage, data: bytes, reason: str) -> None:
    stage.run()
    stage.write(data, at_s=5)
    row = stage.run()
    assert (row.status, row.reason, row.bytes, row.mp4_path) == ("unusable", reason, len(data), None)
    assert list(stage.files()) == ["live/show/rec-0/archive.json"]
    files = stage.files()
    assert stage.run() == row
    assert stage.files() == files


def test_a_track_without_its_set_up_is_left_out(stage: Stage, recording: Path) -> None:
    samples = flv_samples(recording)
    stage.write(flv_bytes(sample for sample in samples if sample.payload[:2] != b"\x17\x00"))
    row = stage.run()
    assert (row.status, row.reason, row.thumbnails) == ("archived", "h264 has no codec configuration", 0)
    assert codecs(stage.archive / str(row.mp4_path)) == ["aac"]

    stage.write(flv_bytes(sample for sample in samples if sample.payload[1:2] != b"\x00"), at_s=1)
    row = stage.run()
    assert (row.status, row.mp4_path) == ("unusable", None)
    assert row.reason == "aac has no codec configuration; h264 has no codec configuration"
    assert list(stage.files()) == ["live/show/rec-0/archive.json"]


def test_repaired_jumps_are_told(stage: Stage, short: bytes, tmp_path: Path) -> None:
    jumped = flv_bytes(retimed(flv_samples(stage.file), lambda at_ms: at_ms if at_ms < 2000 else at_ms + 60_000))
    stage.write(jumped)
    row = stage.run()
    (jump,) = json.loads(row.jumps)
    assert (row.status, row.timestamp_jumps) == ("archived", 1)
    assert abs(jump["at_ms"] - 2000) < 100
    assert abs(jump["by_ms"] - 60_000) < 100
    assert row.duration_ms < 4100


def test_a_missing_file_is_a_row_and_is_looked_for_again(stage: Stage, short: bytes) -> None:
    segment = segment_of(stage.file)
    stage.file.unlink()
    assert stage.run(segment=segment).status == "missing"
    stage.write(short)
    assert stage.run(segment=segment).status == "archived"


def test_a_failing_disk_is_a_row_and_is_tried_again(stage: Stage) -> None:
    stage.archive.write_text("in the way")
    row = stage.run()
    assert row.status == "failed"
    assert "Error" in str(row.reason)
    stage.archive.unlink()
    assert stage.run().status == "archived"


def test_a_hostile_name_writes_nothing_outside_the_archive(stage: Stage, tmp_path: Path) -> None:
    row = stage.run(segment=segment_of(stage.file, app="../..", stream="/etc/x", recording_id="../../r"))
    assert row.status == "archived"
    assert (stage.archive / str(row.mp4_path)).resolve().is_relative_to(stage.archive)
    assert {path.name for path in tmp_path.iterdir()} == {"recordings", "archive"}


def test_recordings_and_archive_may_be_elsewhere(stage: Stage) -> None:
    recordings, archive = Storage(stage.recordings), Storage(stage.archive)
    recordings.is_local = archive.is_local = False
    row = archive_segment(segment_of(stage.file), recordings, archive, OPTIONS)
    copied = {path: (stage.archive / path).read_bytes() for path in stage.files()}
    (stage.archive / "live/show/rec-0/archive.json").unlink()
    assert stage.run() == row
    assert {path: (stage.archive / path).read_bytes() for path in stage.files()} == copied
