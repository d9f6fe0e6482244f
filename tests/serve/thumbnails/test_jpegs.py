"""Key frames of every codec to JPEGs, judged by ffprobe; damaged ones to nothing at all."""

import contextlib
import random
from pathlib import Path

import av
import pytest

from penstock.control.thumbnails import WIDTHS
from penstock.serve.thumbnails.jpegs import NoPicture, jpegs_of
from tests.serve.thumbnails.pictures import SESSIONS, Coded, encoded, probed, recorded


@pytest.mark.parametrize("codec", SESSIONS)
def test_a_key_frame_of_every_codec_becomes_a_jpeg(codec: str, tmp_path: Path) -> None:
    jpegs = jpegs_of(*recorded(codec))
    assert tuple(jpegs) == WIDTHS
    # It is smaller than all of them, and is not blown up.
    assert {probed(jpeg, tmp_path) for jpeg in jpegs.values()} == {"mjpeg,128,72"}


@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        ((1280, 720), {"mjpeg,160,90", "mjpeg,320,180", "mjpeg,640,360"}),
        ((480, 854), {"mjpeg,160,284", "mjpeg,320,568", "mjpeg,480,854"}),
        # Far too high to be a picture of anything.
        ((64, 2048), {"mjpeg,64,256"}),
        ((16, 16), {"mjpeg,16,16"}),
    ],
)
def test_a_jpeg_has_the_width_that_is_asked_for(size: tuple[int, int], sizes: set[str], tmp_path: Path) -> None:
    jpegs = jpegs_of(*encoded(*size))
    assert {probed(jpeg, tmp_path) for jpeg in jpegs.values()} == sizes


# Of VP9 the last bytes may be missing: nothing in a frame says where it ends.
CUTS = [(codec, kept) for codec in SESSIONS for kept in (0, 1, 10, 1000) if (codec, kept) != ("VP9", 1000)]


@pytest.mark.parametrize(("codec", "kept"), CUTS)
def test_a_key_frame_that_is_cut_off_is_no_picture(codec: str, kept: int) -> None:
    coded = recorded(codec)
    with pytest.raises((av.FFmpegError, NoPicture)):
        jpegs_of(codec, coded.setup, coded.key_frame[:kept])


@pytest.mark.parametrize("codec", SESSIONS)
def test_damage_costs_the_picture_and_never_the_process(codec: str) -> None:
    chance = random.Random(f"damaged {codec}")
    coded = recorded(codec)
    for _ in range(60):
        damaged = _damaged(coded, chance)
        with contextlib.suppress(av.FFmpegError, NoPicture):
            assert set(jpegs_of(*damaged)) == set(WIDTHS)


def _damaged(coded: Coded, chance: random.Random) -> Coded:
    setup, frame = bytearray(coded.setup), bytearray(coded.key_frame)
    for _ in range(chance.randint(1, 8)):
        target = setup if setup and chance.random() < 0.3 else frame
        target[chance.randrange(len(target))] ^= 1 << chance.randrange(8)
    return Coded(coded.codec, bytes(setup), bytes(frame))


@pytest.mark.parametrize("codec", ["SORENSON_H263", "VVC", "", "libx264", "png"])
def test_other_codecs_are_not_decoded(codec: str) -> None:
    with pytest.raises(NoPicture, match="is not decoded here"):
        jpegs_of(codec, b"", b"\0" * 100)


def test_a_picture_of_absurd_size_is_refused_before_it_takes_memory() -> None:
    setup = bytearray(recorded("VP9").key_frame)
    # The size is in the frame's own header, behind four bytes that are fixed: 16 bits each, less one.
    head = int.from_bytes(setup[:12], "big")
    head |= 0xFFFFFFFF << (96 - 36 - 32)
    setup[:12] = head.to_bytes(12, "big")
    with pytest.raises((av.FFmpegError, NoPicture)):
        jpegs_of("VP9", b"", bytes(setup))
