"""Torn files, cut at every byte and damaged at random, and what repair makes of them."""

import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.media.flv import write_file_header, write_tag
from penstock.media.flv_metadata import read_flv_metadata
from penstock.media.flv_reader import FlvReader, TagHead, scan_tags
from penstock.media.flv_repair import RepairReport, RepairState, repair
from penstock.media.flv_writer import FlvFileWriter
from tests.support.golden import golden_bytes

KEY = bytes.fromhex("1701000000") + b"key frame"
INTER = bytes.fromhex("2701000000") + b"inter"
AAC_FRAME = bytes.fromhex("af01") + b"sound"
TAGS = [
    (9, 0, bytes.fromhex("1700000000")),
    (8, 0, bytes.fromhex("af001208")),
    (9, 1000, KEY),
    (8, 1005, AAC_FRAME),
    (9, 1040, INTER),
    (9, 2000, KEY),
    (8, 2010, b""),
    (9, 2040, INTER),
    (9, 3000, KEY),
]


def recording_of(count: int) -> tuple[bytes, bytes, list[int]]:
    """A recording of the first tags, before and after `finish`, and the offsets at which its tags begin and it ends."""
    writer = FlvFileWriter({"width": 160.0, "encoder": "a test"}, keyframe_room=4)
    begin = writer.begin()
    pieces = []
    offsets = [len(begin)]
    for kind, timestamp_ms, payload in TAGS[:count]:
        head, trail = writer.add_tag(kind, timestamp_ms, payload, is_key=payload == KEY)
        pieces += [head, payload, trail]
        offsets.append(writer.file_bytes)
    return begin + b"".join(pieces), writer.finish() + b"".join(pieces), offsets


def repaired(data: bytes) -> tuple[bytes, RepairReport]:
    file = io.BytesIO(data)
    report = repair(file)
    return file.getvalue(), report


def test_a_whole_recording_is_left_as_it_is() -> None:
    _, whole, _ = recording_of(len(TAGS))
    assert repaired(whole) == (whole, RepairReport(RepairState.WHOLE, len(whole), 0, 10, 2000, 3, 0, None))


@pytest.mark.parametrize("name", ["h264_aac.flv", "script_data.flv", "hevc_aac.flv", "av1.flv"])
def test_a_whole_file_of_another_writer_is_left_as_it_is(name: str) -> None:
    data = golden_bytes(f"flv/{name}")
    after, report = repaired(data)
    assert after == data
    assert report.state is RepairState.WHOLE


def test_a_recording_torn_at_any_byte_becomes_what_finish_would_have_made_of_it() -> None:
    torn, _, offsets = recording_of(len(TAGS))
    finished = [recording_of(count)[1] for count in range(len(TAGS) + 1)]
    head_end = offsets[0] - 4
    for size in range(len(torn) + 1):
        after, report = repaired(torn[:size])
        if size < head_end:
            assert (after, report.state, report.tags) == (torn[:size], RepairState.UNUSABLE, 0), size
            continue
        # The tag of a torn back pointer is whole.
        count = sum(size >= end - 4 for end in offsets[1:])
        assert after == finished[count], size
        assert report.tags == count + 1, size
        assert report.file_bytes == len(after), size
        assert report.cut_bytes == max(size - len(after), 0), size
        assert (report.state is RepairState.WHOLE) == (torn[:size] == after) == (report.reason is None), size
        again, second = repaired(after)
        assert (again, second.state) == (after, RepairState.WHOLE), size


def test_another_writers_file_torn_at_any_byte_keeps_its_whole_tags() -> None:
    data = golden_bytes("flv/script_data.flv")[:3000]
    heads = list(scan_tags(data, 13))
    ends = [head.offset + 11 + head.payload_bytes for head in heads]
    for size in range(len(data) + 1):
        after, report = repaired(data[:size])
        whole = [end for end in ends if end <= size]
        if not whole:
            assert (after, report.state) == (data[:size], RepairState.UNUSABLE), size
            continue
        assert after == data[: whole[-1] + 4], size
        assert report.tags == len(whole), size
        assert repaired(after)[0] == after, size


def test_a_torn_recording_gets_its_duration_index_and_flags() -> None:
    torn, _, offsets = recording_of(len(TAGS))
    assert torn[4] == 5
    after, report = repaired(torn[:-1])
    read = read_flv_metadata(after[24 : offsets[0] - 4])
    assert read is not None
    assert isinstance(read[1], dict)
    members = {name: value for name, value in read[1].items() if name != "filler"}
    assert members == {
        "width": 160.0,
        "encoder": "a test",
        "duration": 2.0,
        "filesize": float(len(torn)),
        "lasttimestamp": 3.0,
        "hasKeyframes": True,
        "keyframes": {"filepositions": [offsets[2], offsets[5], offsets[8]], "times": [1.0, 2.0, 3.0]},
    }
    assert report == RepairReport(
        RepairState.REPAIRED, len(torn), 0, 10, 2000, 3, 1, f"back pointer at offset {len(torn) - 4} torn or wrong"
    )


def test_more_key_frames_than_were_reserved_for_are_thinned_as_the_writer_thins_them() -> None:
    writer = FlvFileWriter(keyframe_room=4)
    begin = writer.begin()
    rest = b""
    for second in range(11):
        head, trail = writer.add_tag(9, second * 1000, KEY, is_key=True)
        rest += head + KEY + trail
    assert repaired(begin + rest)[0] == writer.finish() + rest


def test_a_wrong_last_back_pointer_is_put_right() -> None:
    data = golden_bytes("flv/h264_aac.flv")
    after, report = repaired(data[:-4] + b"\0\0\0\1")
    assert after == data
    assert (report.state, report.cut_bytes, report.wrong_back_pointers) == (RepairState.REPAIRED, 0, 1)


def test_a_writer_that_leaves_back_pointers_zero_loses_nothing() -> None:
    tags = [write_tag(*tag)[:-4] + bytes(4) for tag in TAGS]
    data = write_file_header(has_audio=True, has_video=True) + b"".join(tags)
    after, report = repaired(data + b"\x09\x00")
    assert after[:-4] == data[:-4]
    assert after[-4:] == (11 + len(KEY)).to_bytes(4)
    assert (report.tags, report.cut_bytes, report.wrong_back_pointers) == (9, 2, 9)


def test_a_large_tag_torn_in_a_back_pointer_of_zeros_is_whole() -> None:
    frame = KEY + bytes(100_000)
    data = write_file_header(has_audio=False, has_video=True) + write_tag(9, 0, frame)
    after, report = repaired(data[:-4] + bytes(3))
    assert (after, report.tags) == (data, 1)


def test_a_damaged_size_that_lands_on_a_byte_like_a_tag_kind_is_not_believed() -> None:
    data = bytearray(write_file_header(has_audio=True, has_video=False) + write_tag(8, 0, b"\x2f" + b"\x08" * 99) * 3)
    second = 13 + 115
    data[second + 3] -= 40
    after, report = repaired(bytes(data))
    assert (after, report.tags) == (bytes(data[:second]), 1)


def test_the_zeros_that_a_power_cut_leaves_are_cut_off() -> None:
    torn, _, offsets = recording_of(len(TAGS))
    finished = recording_of(5)[1]
    after, report = repaired(torn[: offsets[5] + 14] + bytes(5000))
    assert after == finished
    assert report.reason == f"neither back pointer nor next tag fits the tag at offset {offsets[5]}"
    after, report = repaired(torn[: offsets[5]] + bytes(5000))
    assert (after, report.cut_bytes) == (finished, 5000)
    assert report.reason == f"unknown tag kind 0x00 at offset {offsets[5]}"


@pytest.mark.parametrize("excess", [1, 2, 3])
def test_a_last_size_that_reaches_into_its_back_pointer_is_not_believed(excess: int) -> None:
    _, whole, offsets = recording_of(len(TAGS))
    damaged = bytearray(whole)
    damaged[offsets[-2] + 3] += excess
    after, report = repaired(bytes(damaged))
    assert after == recording_of(len(TAGS) - 1)[1]
    assert report.cut_bytes == 11 + len(KEY) + 4


def test_a_damaged_size_does_not_lead_the_walk_astray() -> None:
    data = bytearray(golden_bytes("flv/h264_aac.flv"))
    heads = list(scan_tags(bytes(data), 13))
    victim = heads[20]
    data[victim.offset + 3] ^= 0x10
    after, report = repaired(bytes(data))
    assert report.tags == 20
    assert after == bytes(data[: victim.offset])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes hold no file header of 9"),
        (b"FLV\x01\x05\0\0", "7 bytes hold no file header of 9"),
        (b"FLV\x01\x05\0\0\0\x09", "no tag"),
        (b"FLV\x01\x05\0\0\0\x09\0\0\0\0", "no tag"),
        (b"FLV\x01\x05\0\0\0\x09\0\0\0\0\x12\0", "tag header torn at offset 13"),
        (b"FLV\x01\x05\0\0\0\x09\0\0\0\0\x12\0\0\x02" + bytes(7), "tag of 2 bytes torn at offset 13"),
        (b"\x1aE\xdf\xa3 a film in another container", "signature b'\\x1aE\\xdf' is not b'FLV'"),
    ],
)
def test_a_file_without_a_whole_tag_is_unusable_and_untouched(data: bytes, reason: str) -> None:
    assert repaired(data) == (data, RepairReport(RepairState.UNUSABLE, len(data), 0, 0, 0, 0, 0, reason))


def test_metadata_behind_a_longer_file_header_is_not_rewritten() -> None:
    torn, _, _ = recording_of(3)
    data = torn[:8] + b"\x0a\xff" + torn[9:]
    after, report = repaired(data)
    assert after == data
    assert report.state is RepairState.WHOLE


class ReluctantFile(io.BytesIO):
    """Gives no more than 5 bytes at a time, as an unbuffered file may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 5))


def test_short_reads_change_nothing() -> None:
    torn, whole, _ = recording_of(len(TAGS))
    file = ReluctantFile(torn)
    repair(file)
    assert file.getvalue() == whole


class CountingFile(io.BytesIO):
    bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data


def test_large_payloads_are_not_read() -> None:
    frame = KEY + bytes(1_000_000)
    data = write_file_header(has_audio=False, has_video=True) + write_tag(9, 0, frame) * 5
    file = CountingFile(data)
    assert repair(file).tags == 5
    assert file.bytes_read < 6 * 20_000


def heads_of(data: bytes) -> list[TagHead]:
    return list(scan_tags(data, 13))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_whatever_bytes_are_flipped_the_result_is_readable_and_stays_as_it_is(seed: int, flips: int) -> None:
    generator = random.Random(seed)
    _, whole, _ = recording_of(len(TAGS))
    data = bytearray(whole)
    for _ in range(flips):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    after, report = repaired(bytes(data))
    if report.state is RepairState.UNUSABLE:
        assert after == data
        return
    assert len(after) == report.file_bytes <= len(data) + 3  # at most a torn back pointer is completed
    reader = FlvReader()
    reader.receive_data(after)
    assert len(list(iter(reader.next_tag, None))) == report.tags
    assert reader.unread_bytes == 0
    again, second = repaired(after)
    assert again == after
    assert second.state is RepairState.WHOLE


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([b"", b"FLV\x01\x05\0\0\0\x09\0\0\0\0"]), st.binary(max_size=120))
def test_any_file_gives_a_report_and_at_worst_stays_as_it_was(start: bytes, rest: bytes) -> None:
    after, report = repaired(start + rest)
    assert len(after) == report.file_bytes
    if report.state is not RepairState.REPAIRED:
        assert after == start + rest
