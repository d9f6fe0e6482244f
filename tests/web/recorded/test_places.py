"""Where one may begin to play: by the index of a file, or by a walk where there is none that can be believed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.amf import AmfValue, EcmaArray, write_amf0_values
from penstock.errors import MalformedMedia
from penstock.media.flv import AUDIO_TAG, SCRIPT_TAG, VIDEO_TAG, write_file_header, write_tag
from penstock.web.recorded.places import Place, first_tags, place_of

HEAD = write_file_header(has_audio=True, has_video=True)
KEY = b"\x17\x01\x00\x00\x00\x65"
INTER = b"\x27\x01\x00\x00\x00\x41"
SOUND = b"\xaf\x01\x21"
SETUP = b"\x17\x00\x00\x00\x00\x01"


@contextmanager
def opened(folder: Path, data: bytes) -> Iterator[int]:
    (folder / "a.flv").write_bytes(data)
    descriptor = os.open(folder / "a.flv", os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def pictures(seconds: int) -> bytes:
    """A key frame each second, and one between."""
    return b"".join(
        write_tag(VIDEO_TAG, 1000 * each, KEY) + write_tag(VIDEO_TAG, 1000 * each + 500, INTER)
        for each in range(seconds)
    )


def with_index(positions: list[float], times: list[float], rest: bytes) -> bytes:
    keyframes: dict[str, AmfValue] = {"filepositions": [*positions], "times": [*times]}
    return HEAD + write_tag(SCRIPT_TAG, 0, write_amf0_values("onMetaData", EcmaArray({"keyframes": keyframes}))) + rest


TAG_BYTES = len(write_tag(VIDEO_TAG, 0, KEY))


@pytest.mark.parametrize(
    ("from_ms", "found"), [(0, 0), (999, 0), (1000, 1000), (2700, 2000), (4500, 4000), (60_000, 4000)]
)
def test_without_an_index_the_last_key_frame_before_is_walked_to(tmp_path: Path, from_ms: int, found: int) -> None:
    with opened(tmp_path, HEAD + pictures(5)) as descriptor:
        assert place_of(descriptor, from_ms) == Place(len(HEAD) + found // 500 * TAG_BYTES, found)


def test_with_an_index_nothing_is_walked(tmp_path: Path) -> None:
    begin = len(with_index([0.0, 0.0], [0.0, 3.0], b""))
    # Between the two there is nothing that could be walked over.
    rest = write_tag(VIDEO_TAG, 0, KEY) + bytes(1000) + write_tag(VIDEO_TAG, 3000, KEY)
    far = float(begin + TAG_BYTES + 1000)
    with opened(tmp_path, with_index([float(begin), far], [0.0, 3.0], rest)) as descriptor:
        assert place_of(descriptor, 3500) == Place(int(far), 3000)


@pytest.mark.parametrize(
    ("positions", "times"),
    [
        ([1.0, 2.0], [0.0, 2.0]),
        ([1e300, 1e300], [0.0, 2.0]),
        ([-5.0, float("nan")], [0.0, 2.0]),
        ([13.0], [0.0, 2.0]),
        ([], []),
    ],
)
def test_an_index_that_is_wrong_is_not_believed(tmp_path: Path, positions: list[float], times: list[float]) -> None:
    data = with_index(positions, times, pictures(5))
    begin = len(data) - 10 * TAG_BYTES
    with opened(tmp_path, data) as descriptor:
        assert place_of(descriptor, 2700) == Place(begin + 4 * TAG_BYTES, 2000)


def test_sound_alone_is_entered_at_any_frame(tmp_path: Path) -> None:
    tags = [write_tag(AUDIO_TAG, each, SOUND) for each in (0, 20, 40, 60)]
    with opened(tmp_path, HEAD + b"".join(tags)) as descriptor:
        assert place_of(descriptor, 45) == Place(len(HEAD) + 2 * len(tags[0]), 40)


def test_a_torn_end_is_no_end_of_everything(tmp_path: Path) -> None:
    with opened(tmp_path, (HEAD + pictures(5))[:-10]) as descriptor:
        assert place_of(descriptor, 60_000).time_ms == 4000


@pytest.mark.parametrize("data", [b"", b"FLV", b"RIFF" + bytes(20), HEAD + bytes(100)])
def test_what_is_no_flv_is_refused(tmp_path: Path, data: bytes) -> None:
    with opened(tmp_path, data) as descriptor, pytest.raises(MalformedMedia):
        place_of(descriptor, 1000)


def test_set_up_is_looked_for_where_a_file_begins_and_no_further(tmp_path: Path) -> None:
    many = write_tag(VIDEO_TAG, 0, SETUP) + write_tag(VIDEO_TAG, 0, KEY) * 1000
    with opened(tmp_path, HEAD + many) as descriptor:
        tags = list(first_tags(descriptor))
    assert (tags[0].payload, len(tags)) == (SETUP, 256)
