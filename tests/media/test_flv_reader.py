"""The stream reader and the header scan, against files of FFmpeg and bytes written by hand."""

import mmap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.flv import FlvHeader, FlvTag, write_file_header, write_tag
from penstock.media.flv_index import is_key_video
from penstock.media.flv_reader import FlvReader, TagHead, scan_tags
from tests.support.cuts import all_cuts, random_cuts
from tests.support.golden import golden_bytes

GOLDEN_NAMES = ["h264_aac.flv", "script_data.flv", "hevc_aac.flv", "av1.flv"]

# ffprobe -show_packets -show_entries packet=dts,size,pos,flags: its position is that of the tag, its size leaves out
# the 5 bytes (AVC) or 2 bytes (AAC) before the coded frame.
H264_PACKETS_BY_FFPROBE = [
    (0, 1393, 383, "K"),
    (100, 89, 1796, "_"),
    (200, 12, 2029, "_"),
    (300, 12, 2493, "_"),
    (400, 38, 2827, "_"),
    (500, 811, 3185, "K"),
    (600, 68, 4407, "_"),
    (700, 12, 4812, "_"),
    (800, 12, 5191, "_"),
    (900, 54, 5653, "_"),
    (1000, 793, 6079, "K"),
    (1100, 67, 7236, "_"),
    (1200, 12, 7758, "_"),
    (1300, 12, 8139, "_"),
    (1400, 49, 8517, "_"),
    (1500, 786, 8938, "K"),
    (1600, 89, 10175, "_"),
    (1700, 12, 10638, "_"),
    (1800, 12, 11020, "_"),
    (1900, 55, 11494, "_"),
]
FIRST_AAC_PACKETS_BY_FFPROBE = [(177, 107, 1905), (200, 121, 2061), (223, 56, 2199), (246, 56, 2272), (270, 57, 2345)]
# ffmpeg 7 -c copy -f framecrc: dts, size without the 5 bytes of enhanced header, and F=0x0 on what is no key frame.
AV1_PACKETS_BY_FFMPEG = [
    *((0, 974, "K"), (100, 191, "_"), (200, 5, "_"), (300, 22, "_"), (400, 24, "_")),
    *((500, 1283, "K"), (600, 195, "_"), (700, 5, "_"), (800, 24, "_"), (900, 25, "_")),
    *((1000, 1618, "K"), (1100, 196, "_"), (1200, 5, "_"), (1300, 24, "_"), (1400, 26, "_")),
    *((1500, 1956, "K"), (1600, 210, "_"), (1700, 5, "_"), (1800, 24, "_"), (1900, 26, "_")),
]

FILE_HEADER = bytes.fromhex("464c5601 05 00000009")
SILENCE = bytes.fromhex("08 000000 00002a 00 000000")
AAC_HEADER = bytes.fromhex("08 000004 000000 00 000000 af001208")
EXTENDED = bytes.fromhex("09 000001 000010 01 000000 27")


def read_all(pieces: list[bytes]) -> tuple[list[FlvTag], FlvReader]:
    reader = FlvReader()
    tags = []
    for piece in pieces:
        reader.receive_data(piece)
        while (tag := reader.next_tag()) is not None:
            tags.append(tag)
    return tags, reader


def test_an_h264_file_of_ffmpeg_has_the_packets_that_ffprobe_sees() -> None:
    tags, reader = read_all([golden_bytes("flv/h264_aac.flv")])
    assert reader.header == FlvHeader(1, True, True, 9)
    frames = [tag for tag in tags if tag.kind == 9 and tag.payload[1] == 1]
    keys = {True: "K", False: "_"}
    assert [
        (tag.timestamp_ms, len(tag.payload) - 5, tag.offset, keys[is_key_video(tag.payload)]) for tag in frames
    ] == H264_PACKETS_BY_FFPROBE
    sounds = [(tag.timestamp_ms, len(tag.payload) - 2, tag.offset) for tag in tags if tag.kind == 8]
    assert sounds[1:6] == FIRST_AAC_PACKETS_BY_FFPROBE
    assert (len(tags), len(sounds)) == (112, 89)


def test_an_av1_file_of_ffmpeg_has_the_packets_that_ffmpeg_copies() -> None:
    tags, reader = read_all([golden_bytes("flv/av1.flv")])
    assert reader.header == FlvHeader(1, False, True, 9)
    keys = {0x91: "K", 0xA1: "_"}
    assert [
        (tag.timestamp_ms, len(tag.payload) - 5, keys[tag.payload[0]]) for tag in tags if tag.payload[0] in keys
    ] == AV1_PACKETS_BY_FFMPEG


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_file_gives_the_same_tags_however_it_is_cut(name: str) -> None:
    data = golden_bytes(f"flv/{name}")
    expected, _ = read_all([data])
    for cut_name, pieces in all_cuts(data):
        tags, reader = read_all(pieces)
        assert tags == expected, cut_name
        assert (reader.unread_bytes, reader.wrong_back_pointers) == (0, 0), cut_name


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_scan_gives_the_heads_of_the_tags_that_a_reader_gives(name: str) -> None:
    data = golden_bytes(f"flv/{name}")
    tags, _ = read_all([data])
    assert list(scan_tags(data, 13)) == [
        TagHead(tag.kind, tag.timestamp_ms, tag.offset, len(tag.payload), tag.payload[:8]) for tag in tags
    ]


def test_a_scan_takes_a_view_and_a_mapped_file_as_well_as_bytes(tmp_path: Path) -> None:
    data = golden_bytes("flv/h264_aac.flv")
    path = tmp_path / "mapped.flv"
    path.write_bytes(data)
    expected = list(scan_tags(data, 13))
    assert list(scan_tags(memoryview(data), 13)) == expected
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert list(scan_tags(mapped, 13)) == expected


def test_a_scan_of_two_regions_is_the_scan_of_the_whole() -> None:
    data = golden_bytes("flv/h264_aac.flv")
    expected = list(scan_tags(data, 13))
    first = list(scan_tags(data, 13, 5000))
    resume_at = first[-1].offset + 15 + first[-1].payload_bytes
    assert first + list(scan_tags(data, resume_at)) == expected
    assert all(head.offset + 11 + head.payload_bytes <= 5000 for head in first)


@pytest.mark.parametrize("missing", range(1, 5))
def test_a_scan_gives_a_last_tag_whose_back_pointer_is_torn(missing: int) -> None:
    data = write_file_header(has_audio=True, has_video=True) + SILENCE + bytes(4)
    assert list(scan_tags(data[:-missing], 13)) == [TagHead(8, 42, 13, 0, b"")]


def test_a_scan_ends_before_a_torn_tag_and_never_reads_past_its_end() -> None:
    data = FILE_HEADER + bytes(4) + AAC_HEADER + b"\0\0\0\x0f" + EXTENDED
    head = TagHead(8, 0, 13, 4, b"\xaf\x00\x12\x08")
    assert list(scan_tags(data, 13)) == [head, TagHead(9, 0x01000010, 32, 1, b"\x27")]
    for end in range(28, len(data)):
        assert list(scan_tags(data, 13, end)) == [head], end
    assert list(scan_tags(data, 13, 27)) == []


@pytest.mark.parametrize("tail", [b"", bytes(64)])
def test_a_scan_refuses_an_unknown_kind_wherever_it_lies(tail: bytes) -> None:
    data = FILE_HEADER + bytes(4) + AAC_HEADER + b"\0\0\0\x0f" + bytes.fromhex("29 000000 000000 00 000000") + tail
    with pytest.raises(MalformedMedia, match="encrypted tag 0x29 at offset 32"):
        list(scan_tags(data, 13))


def test_a_tag_is_given_before_its_back_pointer_has_come() -> None:
    reader = FlvReader()
    reader.receive_data(FILE_HEADER + bytes(4) + EXTENDED[:-1])
    assert reader.next_tag() is None
    reader.receive_data(EXTENDED[-1:])
    assert reader.next_tag() == FlvTag(9, 0x01000010, b"\x27", 13)
    assert reader.next_tag() is None


def test_an_empty_payload_is_a_tag() -> None:
    tags, _ = read_all([FILE_HEADER + bytes(4) + SILENCE + b"\0\0\0\x0b" + SILENCE])
    assert tags == [FlvTag(8, 42, b"", 13), FlvTag(8, 42, b"", 28)]


def test_a_longer_header_is_skipped() -> None:
    data = bytes.fromhex("464c5601 04 0000000d") + b"more" + bytes(4) + AAC_HEADER
    for cut_name, pieces in all_cuts(data):
        tags, reader = read_all(pieces)
        assert tags == [FlvTag(8, 0, b"\xaf\x00\x12\x08", 17)], cut_name
        assert reader.header == FlvHeader(1, True, False, 13)


def test_wrong_back_pointers_are_counted_and_harm_nothing() -> None:
    data = FILE_HEADER + b"\0\0\0\x01" + AAC_HEADER + bytes(4) + SILENCE + b"\0\0\0\x0b" + SILENCE + bytes(4)
    tags, reader = read_all([data])
    assert [tag.offset for tag in tags] == [13, 32, 47]
    assert reader.wrong_back_pointers == 3


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"FLX\x01\x05\0\0\0\x09", "flv: signature b'FLX' is not b'FLV'"),
        (FILE_HEADER + bytes(4) + bytes(11), "flv: unknown tag kind 0x00 at offset 13"),
        (FILE_HEADER + bytes(4) + AAC_HEADER + bytes(4) + b"\x28" + bytes(10), "flv: encrypted tag 0x28 at offset 32"),
    ],
)
def test_a_damaged_stream_is_refused_at_its_offset_and_stays_refused(data: bytes, complaint: str) -> None:
    reader = FlvReader()
    reader.receive_data(data)
    for _ in range(2):
        with pytest.raises(MalformedMedia) as caught:
            list(iter(reader.next_tag, None))
        assert str(caught.value) == complaint


def test_the_largest_tag_fed_in_small_pieces_is_read_without_looking_at_it_each_time() -> None:
    payload = bytes(0xFFFFFF)
    reader = FlvReader()
    reader.receive_data(FILE_HEADER + bytes(4) + bytes.fromhex("09 ffffff 000000 00 000000"))
    for start in range(0, len(payload), 128):
        assert reader.next_tag() is None
        reader.receive_data(payload[start : start + 128])
    tag = reader.next_tag()
    assert tag is not None
    assert tag.payload == payload
    assert reader.unread_bytes == 0


tags_strategy = st.lists(
    st.tuples(st.sampled_from([8, 9, 15, 18]), st.integers(0, 0xFFFFFFFF), st.binary(max_size=300)), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(tags_strategy, st.integers(0, 1000))
def test_any_tags_are_read_back_as_they_were_written(tags: list[tuple[int, int, bytes]], seed: int) -> None:
    data = write_file_header(has_audio=True, has_video=True) + b"".join(write_tag(*tag) for tag in tags)
    read, reader = read_all(random_cuts(data, seed))
    assert [tag[:3] for tag in read] == tags
    assert reader.wrong_back_pointers == 0
    assert [(head.kind, head.timestamp_ms, head.start) for head in scan_tags(data, 13)] == [
        (kind, timestamp_ms, payload[:8]) for kind, timestamp_ms, payload in tags
    ]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([b"", FILE_HEADER, FILE_HEADER + bytes(4)]), st.binary(max_size=200), st.integers(0, 1000))
def test_any_bytes_give_tags_or_malformed_media(start: bytes, rest: bytes, seed: int) -> None:
    data = start + rest

    def outcome(pieces: list[bytes]) -> tuple[list[FlvTag], str | None]:
        reader = FlvReader()
        tags = []
        try:
            for piece in pieces:
                reader.receive_data(piece)
                while (tag := reader.next_tag()) is not None:
                    tags.append(tag)
        except MalformedMedia as error:
            return tags, str(error)
        return tags, None

    assert outcome(random_cuts(data, seed)) == outcome([data])
    try:
        heads = list(scan_tags(data, 13))
    except MalformedMedia:
        return
    assert all(head.offset + 11 + head.payload_bytes <= len(data) for head in heads)
