"""Thumbnails and the contact sheet, looked at pixel by pixel after another decoder has read them."""

import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from penstock.pipeline.jobs.pictures import write_sheet, write_thumbnails
from penstock.pipeline.jobs.remux import write_mp4
from penstock.pipeline.jobs.verify import verify
from tests.pipeline.jobs.recorded import flv_bytes, make_recording, opened, retimed
from tests.support.ffmpeg import find_ffmpeg
from tests.support.samples import flv_samples


@pytest.fixture
def mp4(recording: Path, tmp_path: Path) -> Path:
    with opened(recording.read_bytes()) as file:
        write_mp4(file, verify(file), tmp_path / "r.mp4")
    return tmp_path / "r.mp4"


def pixels(path: Path, *seek: str) -> npt.NDArray[np.uint8]:
    """The first picture of a file by ffmpeg, as rows of red, green and blue."""
    command = [find_ffmpeg(), "-nostdin", "-v", "error", *seek, "-i", str(path), "-frames:v", "1"]
    ended = subprocess.run([*command, "-f", "image2pipe", "-c:v", "ppm", "-"], capture_output=True, check=True)
    _, width, height, _ = ended.stdout.split(maxsplit=4)[:4]
    return np.frombuffer(ended.stdout[-int(width) * int(height) * 3 :], np.uint8).reshape(int(height), int(width), 3)


def test_thumbnails_are_key_frames_named_by_their_time(mp4: Path, tmp_path: Path) -> None:
    paths = write_thumbnails(mp4, tmp_path / "thumbnails", every_s=4, width_px=128)
    # FFmpeg has the sound begin 46 ms before the picture.
    assert [path.name for path in paths] == ["000000046.jpg", "000004046.jpg", "000008046.jpg", "000012046.jpg"]
    for path in paths[::3]:
        there = pixels(mp4, "-ss", str(int(path.stem) / 1000)).astype(int)
        assert np.abs(pixels(path) - there).mean() < 8


def test_a_key_frame_comes_once_however_many_pictures_are_asked_for(recording: Path, tmp_path: Path) -> None:
    samples = [sample for sample in flv_samples(recording) if sample.timestamp_ms < 600]
    with opened(flv_bytes(retimed(samples, lambda at_ms: 5 * at_ms))) as source:
        write_mp4(source, verify(source), tmp_path / "slow.mp4")
    # Three seconds with key frames at the start and after two and a half.
    paths = write_thumbnails(tmp_path / "slow.mp4", tmp_path / "thumbnails", every_s=1, width_px=64)
    assert [path.name for path in paths] == ["000000230.jpg"]


def test_the_sheet_shows_thumbnails_row_by_row(mp4: Path, tmp_path: Path) -> None:
    paths = write_thumbnails(mp4, tmp_path / "thumbnails", every_s=2, width_px=64)
    assert len(paths) == 7
    write_sheet(paths, tmp_path / "sheet.jpg")
    sheet = pixels(tmp_path / "sheet.jpg").astype(int)
    assert sheet.shape == (4 + 2 * (36 + 4), 4 + 5 * (64 + 4), 3)
    for number, path in [*enumerate(paths)][::3]:
        top, left = 4 + number // 5 * 40, 4 + number % 5 * 68
        assert np.abs(sheet[top : top + 36, left : left + 64] - pixels(path)).mean() < 8
    assert sheet[48:, 4 + 2 * 68 :].std() < 5


def test_the_sheet_of_many_thumbnails_is_spread_over_all(mp4: Path, tmp_path: Path) -> None:
    paths = write_thumbnails(mp4, tmp_path / "thumbnails", every_s=1, width_px=32)
    write_sheet([*paths, *paths, *paths], tmp_path / "sheet.jpg")
    assert pixels(tmp_path / "sheet.jpg").shape == (4 + 5 * (18 + 4), 4 + 5 * (32 + 4), 3)


def test_pixels_that_are_not_square_are_made_so(tmp_path: Path) -> None:
    source = make_recording(tmp_path / "wide.flv", 1, extra=["-vf", "setsar=2/1"])
    with opened(source.read_bytes()) as file:
        write_mp4(file, verify(file), tmp_path / "r.mp4")
    (path,) = write_thumbnails(tmp_path / "r.mp4", tmp_path / "thumbnails", every_s=10, width_px=128)
    assert pixels(path).shape == (36, 128, 3)
