"""The walk from tag to tag: the same tags however the file is windowed, and what becomes of damage."""

import random
from pathlib import Path

import pytest

from penstock.media.flv import write_file_header, write_tag
from penstock.media.flv_reader import scan_tags
from penstock.pipeline.sources.files import OpenFile, locate
from penstock.pipeline.sources.flv.batches import read_part
from penstock.pipeline.sources.flv.walk import WINDOW_BYTES, Damage, Tags, Walk
from tests.pipeline.sources.recordings import GOLDEN, make_numbered, planned

Found = tuple[int, int, int, int]
FIRST_TAG = 13
SOUNDS = [b"\xaf\x01" + bytes([number]) * 30 for number in range(6)]
SOUND_TAG_BYTES = 11 + 32 + 4


def walked(path: Path, window_bytes: int = WINDOW_BYTES, start: int = 0, end: int = 2**62) -> list[Found | Damage]:
    """Each tag as kind, time, offset and size, and each damage."""
    found: list[Found | Damage] = []
    with OpenFile(locate(str(path))) as file:
        for each in Walk(file, start, end, window_bytes).run():
            if isinstance(each, Tags):
                columns = (each.kinds, each.times_ms, each.offsets, each.sizes)
                found += [tuple(map(int, row)) for row in zip(*columns, strict=True)]  # type: ignore[misc]
            else:
                found.append(each)
    return found


def file_of(path: Path, *pieces: bytes) -> Path:
    path.write_bytes(write_file_header(has_audio=True, has_video=True) + b"".join(pieces))
    return path


def sound_tags() -> list[bytes]:
    return [write_tag(8, 20 * number, payload) for number, payload in enumerate(SOUNDS)]


def sound_at(number: int) -> Found:
    return 8, 20 * number, FIRST_TAG + number * SOUND_TAG_BYTES, 32


@pytest.mark.parametrize("window_bytes", [64, 1000, WINDOW_BYTES])
@pytest.mark.parametrize("name", ["h264_aac", "hevc_aac", "av1", "script_data"])
def test_the_walk_finds_what_the_scan_of_media_finds(name: str, window_bytes: int) -> None:
    path = GOLDEN / f"{name}.flv"

    scanned = [tuple(head)[:4] for head in scan_tags(path.read_bytes(), FIRST_TAG)]

    assert walked(path, window_bytes) == scanned


def test_the_starts_of_payloads_come_with_the_tags(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.flv", *sound_tags())

    with OpenFile(locate(str(path))) as file:
        (tags,) = Walk(file, 0, 2**62).run()

    assert isinstance(tags, Tags)
    assert [bytes(start) for start in tags.starts] == [payload[:8] for payload in SOUNDS]
    assert [tags.payload(row) for row in range(len(tags))] == SOUNDS


def test_many_small_tags_of_one_window_are_numbered_through_all_batches(tmp_path: Path) -> None:
    make_numbered(tmp_path / "a.flv", gops=1, gop_frames=9000)
    (part,) = planned(tmp_path / "a.flv")

    batches = list(read_part(part, has_payload=True, is_numbered=True))

    assert (tmp_path / "a.flv").stat().st_size < WINDOW_BYTES
    assert len(batches) > 1
    assert [number for batch in batches for number in batch["tag_index"].to_pylist()] == list(range(18_001))
    sounds = [payload for batch in batches for payload in batch["payload"].to_pylist()[-1:]]
    assert [sound[-4:] for sound in sounds] == [(batch["dts_ms"][-1].as_py() // 100).to_bytes(4) for batch in batches]


def test_a_part_holds_the_tags_that_begin_in_it(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.flv", *sound_tags())

    start, end = sound_at(2)[2], sound_at(4)[2]

    assert walked(path, start=start, end=end) == [sound_at(2), sound_at(3)]


@pytest.mark.parametrize("window_bytes", [64, WINDOW_BYTES])
def test_back_pointers_of_zero_are_no_damage(tmp_path: Path, window_bytes: int) -> None:
    path = file_of(tmp_path / "a.flv", *(tag[:-4] + bytes(4) for tag in sound_tags()))

    assert walked(path, window_bytes) == [sound_at(number) for number in range(6)]


def test_times_have_thirty_two_bits(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.flv", write_tag(8, 0xFEDCBA98, SOUNDS[0]))

    assert walked(path) == [(8, 0xFEDCBA98, FIRST_TAG, 32)]


def test_what_only_looks_like_a_tag_is_passed_over_with_the_damage(tmp_path: Path) -> None:
    like_a_tag = b"\x08\x00\x00\x05" + bytes(7) + b"\xaf\x01\x00\x00\x00" + b"\x00\x00\x00\x11"
    tags = [*sound_tags()[:2], b"\x77" + like_a_tag]
    path = file_of(tmp_path / "a.flv", *tags, write_tag(8, 99, SOUNDS[2]))

    place = sound_at(2)[2]
    damage = Damage(place, 1 + len(like_a_tag), f"unknown tag kind 0x77 at offset {place}", False)
    assert walked(path) == [sound_at(0), sound_at(1), damage, (8, 99, place + damage.skipped_bytes, 32)]


@pytest.mark.parametrize("window_bytes", [64, WINDOW_BYTES])
def test_the_walk_goes_on_behind_a_kind_that_is_none(tmp_path: Path, window_bytes: int) -> None:
    tags = sound_tags()
    tags[2] = b"\x77" + tags[2][1:]
    path = file_of(tmp_path / "a.flv", *tags)

    damage = Damage(sound_at(2)[2], SOUND_TAG_BYTES, f"unknown tag kind 0x77 at offset {sound_at(2)[2]}", False)
    assert walked(path, window_bytes) == [sound_at(0), sound_at(1), damage, *map(sound_at, (3, 4, 5))]


@pytest.mark.parametrize("size", [5, 33, 100, 2000, 16_000_000])
def test_a_wrong_size_costs_one_tag(tmp_path: Path, size: int) -> None:
    tags = sound_tags()
    tags[2] = tags[2][:1] + size.to_bytes(3) + tags[2][4:]
    path = file_of(tmp_path / "a.flv", *tags)

    before, (damage, *after) = walked(path)[:2], walked(path)[2:]

    assert before == [sound_at(0), sound_at(1)]
    assert isinstance(damage, Damage)
    assert (damage.offset, damage.skipped_bytes) == (sound_at(2)[2], SOUND_TAG_BYTES)
    assert after == [sound_at(3), sound_at(4), sound_at(5)]


@pytest.mark.parametrize(("left_bytes", "reason"), [(7, "tag header torn"), (20, "tag of 32 bytes torn")])
def test_a_torn_end_is_told_with_its_place(tmp_path: Path, left_bytes: int, reason: str) -> None:
    tags = sound_tags()
    path = file_of(tmp_path / "a.flv", *tags[:5], tags[5][:left_bytes])

    offset = sound_at(5)[2]
    torn = Damage(offset, left_bytes, f"{reason} at offset {offset}", True)
    assert walked(path) == [*map(sound_at, range(5)), torn]


def test_a_torn_back_pointer_is_no_damage(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.flv", *sound_tags())
    path.write_bytes(path.read_bytes()[:-2])

    assert walked(path) == [sound_at(number) for number in range(6)]


def test_a_file_with_a_broken_header_is_read_from_its_first_tag_on(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.flv", *sound_tags())
    path.write_bytes(b"XXX" + path.read_bytes()[3:])

    assert walked(path) == [
        Damage(0, FIRST_TAG, "signature b'XXX' is not b'FLV'", False),
        *(sound_at(number) for number in range(6)),
    ]


@pytest.mark.parametrize("size", [0, 5, 100_000])
def test_random_bytes_are_one_damage(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.flv"
    path.write_bytes(random.Random(7).randbytes(size))

    (damage,) = walked(path)

    assert isinstance(damage, Damage)
    assert (damage.offset, damage.skipped_bytes, damage.is_to_end) == (0, size, True)


def test_random_damage_never_stops_the_walk(tmp_path: Path) -> None:
    whole = (GOLDEN / "h264_aac.flv").read_bytes()
    random_source = random.Random(11)
    path = tmp_path / "a.flv"
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(3):
            data[random_source.randrange(len(data))] = random_source.randrange(256)
        path.write_bytes(data[: random_source.randrange(len(data))])

        offsets = [each.offset if isinstance(each, Damage) else each[2] for each in walked(path, 4096)]

        assert offsets == sorted(set(offsets))
