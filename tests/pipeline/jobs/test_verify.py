"""What is found in a recorded file: structure, timestamps, gaps, index."""

from pathlib import Path

import pytest

from penstock.media.continuous_time import Jump
from penstock.pipeline.jobs.verify import Verification, verify
from tests.pipeline.jobs.recorded import flv_bytes, opened, retimed
from tests.support.samples import Sample

# The first bytes of H.264 and AAC are all that is looked at.
SETUP = [Sample(9, 0, b"\x17\x00\x00\x00\x00avcC"), Sample(8, 0, b"\xaf\x00\x12\x10")]
KEY = b"\x17\x01\x00\x00\x00key picture"
INTER = b"\x27\x01\x00\x00\x00picture"
SOUND = b"\xaf\x01sound"


def frames(*times_ms: int) -> list[Sample]:
    """A key picture, a picture and a sound for each time, 40 ms apart."""
    kinds = ((9, 0, KEY), (8, 5, SOUND), (9, 40, INTER))
    return [Sample(kind, at + later, payload) for at in times_ms for kind, later, payload in kinds]


def verified(data: bytes) -> Verification:
    with opened(data) as file:
        return verify(file)


WHOLE = flv_bytes([*SETUP, *frames(0, 80, 160)])


def test_a_whole_file_has_nothing_wrong() -> None:
    assert verified(WHOLE) == Verification(
        tags=12,
        damaged_places=0,
        damaged_bytes=0,
        damage=None,
        start_ms=0,
        duration_ms=200,
        has_media=True,
        keyframes=3,
        index="right",
        gaps=0,
        gap_ms=0,
        jumps=(),
        moved_frames=0,
    )


def test_damage_is_passed_over_and_told() -> None:
    torn = verified(WHOLE + WHOLE[-20:])
    assert (torn.tags, torn.damaged_places, torn.damaged_bytes) == (12, 1, 20)
    assert torn.damage == f"unknown tag kind 0x{WHOLE[-20]:02x} at offset {len(WHOLE)}"
    start = len(flv_bytes(SETUP))
    holed = verified(WHOLE[:start] + b"\xee" * 100 + WHOLE[start:] + b"\xdd" * 30)
    assert (holed.damaged_places, holed.tags) == (2, 12)
    assert holed.damage == f"unknown tag kind 0xee at offset {start}, and 1 more"
    assert (holed.keyframes, holed.duration_ms, holed.index) == (3, 200, "wrong")


@pytest.mark.parametrize("data", [b"", b"RIFF" * 10, b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00"])
def test_a_file_without_a_tag_has_no_media(data: bytes) -> None:
    found = verified(data)
    assert (found.has_media, found.tags, found.duration_ms) == (False, 0, 0)


def test_jumps_and_gaps_are_told_apart() -> None:
    samples = frames(0, 80, 160, 5000, 3_600_000, 3_600_080)
    found = verified(flv_bytes([*SETUP, *samples]))
    assert found.jumps == (Jump(at_ms=5080, by_ms=3_594_920, track="video"),)
    assert (found.gaps, found.gap_ms) == (1, 4800)
    assert found.duration_ms == 5200


def test_an_index_that_leads_elsewhere_is_wrong() -> None:
    retimed_later = flv_bytes([*SETUP, *frames(0, 81, 160)])
    head = len(flv_bytes([]))
    assert verified(WHOLE[:head] + retimed_later[head:]).index == "right"
    late = flv_bytes([*SETUP, *frames(0, 90, 160)])
    assert verified(WHOLE[:head] + late[head:]).index == "wrong"


def test_a_file_of_another_writer_may_have_no_index(recording: Path) -> None:
    found = verified(recording.read_bytes())
    assert found.index == "none"
    assert (found.damage, found.keyframes, found.gaps, found.jumps) == (None, 28, 0, ())
    assert 13_800 <= found.duration_ms <= 14_050


def test_sound_that_begins_before_the_picture_moves_the_start() -> None:
    samples = [*SETUP, Sample(9, 1000, KEY), Sample(8, 960, SOUND), Sample(9, 1040, INTER)]
    found = verified(flv_bytes(samples))
    assert (found.start_ms, found.duration_ms) == (40, 80)


def test_an_index_over_the_wrap_of_the_clock_is_right() -> None:
    samples = retimed(frames(0, 80, 160), lambda at_ms: at_ms + 2**32 - 100)
    assert verified(flv_bytes([*SETUP, *samples])) == verified(WHOLE)
