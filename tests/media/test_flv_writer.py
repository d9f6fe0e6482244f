"""Recordings as they are written: metadata first, with room for what is known last."""

import struct
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.amf import AmfDate, AmfValue, EcmaArray, write_amf0_values
from penstock.errors import MalformedMedia, MisuseError
from penstock.media.flv_index import FlvIndexer
from penstock.media.flv_metadata import ReservedMetadata, read_flv_metadata
from penstock.media.flv_reader import FlvReader, scan_tags
from penstock.media.flv_writer import FlvFileWriter
from tests.support.golden import golden_bytes

KEY = bytes.fromhex("1701000000") + b"key"
INTER = bytes.fromhex("2701000000") + b"inter"
AAC_FRAME = bytes.fromhex("af01") + b"sound"


class Recording(NamedTuple):
    torn: bytes
    whole: bytes


def record(writer: FlvFileWriter, tags: list[tuple[int, int, bytes]]) -> Recording:
    """The file as it is before and after `finish`."""
    begin = writer.begin()
    pieces = [begin]
    for kind, timestamp_ms, payload in tags:
        head, trail = writer.add_tag(kind, timestamp_ms, payload, is_key=payload == KEY)
        pieces += [head, payload, trail]
    torn = b"".join(pieces)
    finish = writer.finish()
    assert len(finish) == len(begin)
    assert writer.file_bytes == len(torn)
    return Recording(torn, finish + torn[len(begin) :])


def metadata_of(data: bytes) -> dict[str, AmfValue]:
    head = next(scan_tags(data, 13))
    read = read_flv_metadata(data[24 : 24 + head.payload_bytes])
    assert read is not None
    name, value = read
    assert name == "onMetaData"
    assert isinstance(value, EcmaArray)
    return value


def test_a_recording_begins_with_these_bytes() -> None:
    begin = FlvFileWriter(keyframe_room=0).begin()
    number = "00 0000000000000000"
    assert begin == bytes.fromhex(
        "464c5601 05 00000009 00000000"
        "12 00009f 000000 00 000000"
        "02 000a 6f6e4d65746144617461"
        "08 00000005"
        f"0008 6475726174696f6e {number}"
        f"0008 66696c6573697a65 {number}"
        f"000d 6c61737474696d657374616d70 {number}"
        "000c 6861734b65796672616d6573 01 00"
        "0006 66696c6c6572 0a 00000001"
        "02 002c" + "20" * 44 + "000009"
        "000000aa"
    )


def test_finish_tells_duration_size_and_where_the_key_frames_are() -> None:
    tags = [(9, 5000, KEY), (8, 5010, AAC_FRAME), (9, 5040, INTER), (9, 6000, KEY), (8, 6020, AAC_FRAME)]
    recording = record(FlvFileWriter(keyframe_room=10), tags)
    heads = list(scan_tags(recording.whole, 13))
    positions = [head.offset for head in heads if head.start.startswith(KEY[:5])]
    metadata = metadata_of(recording.whole)
    assert metadata.pop("filler")
    assert metadata == {
        "duration": 1.02,
        "filesize": float(len(recording.whole)),
        "lasttimestamp": 6.02,
        "hasKeyframes": True,
        "keyframes": {"filepositions": positions, "times": [5.0, 6.0]},
    }
    assert recording.whole[positions[1] : positions[1] + 11] == bytes.fromhex("09 000008 001770 00 000000")


def test_a_finished_recording_reads_back_as_what_was_added() -> None:
    tags = [(18, 0, b"\x02\x00\x01x\x05"), (9, 0xFFFFFF, KEY), (8, 0x01000000, b""), (15, 0xFFFFFFFF, b"\x00")]
    recording = record(FlvFileWriter({"encoder": "x"}), tags)
    for data in recording:
        reader = FlvReader()
        reader.receive_data(data)
        read = [tag[:3] for tag in iter(reader.next_tag, None)]
        assert read[1:] == tags
        assert (reader.wrong_back_pointers, reader.unread_bytes) == (0, 0)


def test_the_publishers_members_stay_in_their_order_and_ours_win() -> None:
    published: dict[str, AmfValue] = {
        "width": 1280.0,
        "duration": 0.0,
        "keyframes": {"times": [1.0]},
        "encoder": "obs-output module",
        "filler": "theirs",
        "filesize": 7.0,
        "made": AmfDate(1000.0, 0),
        "tracks": {"1": {"height": 720.0}},
    }
    recording = record(FlvFileWriter(published), [(9, 0, KEY), (9, 2000, KEY)])
    for data in recording:
        metadata = metadata_of(data)
        assert list(metadata)[:6] == ["width", "duration", "encoder", "filesize", "made", "tracks"]
        assert list(metadata)[-1] == "filler"
        assert metadata["made"] == AmfDate(1000.0, 0)
        assert metadata["tracks"] == {"1": {"height": 720.0}}
    assert metadata["duration"] == 2.0
    assert metadata["filesize"] == len(recording.whole)
    assert metadata["keyframes"] != published["keyframes"]


def test_the_header_promises_until_the_end_tells_what_came() -> None:
    recording = record(FlvFileWriter(has_audio=True, has_video=True), [(8, 0, AAC_FRAME)])
    assert (recording.torn[4], recording.whole[4]) == (5, 4)
    recording = record(FlvFileWriter(has_audio=False, has_video=False), [(9, 0, KEY)])
    assert (recording.torn[4], recording.whole[4]) == (0, 1)


@pytest.mark.parametrize("keyframes", [0, 1])
def test_an_index_that_players_would_refuse_is_left_out(keyframes: int) -> None:
    recording = record(FlvFileWriter(), [(9, 0, KEY)] * keyframes + [(9, 40, INTER)])
    assert "keyframes" not in metadata_of(recording.whole)


def test_an_hour_with_a_key_frame_each_second_keeps_them_all_in_the_default_room() -> None:
    writer = FlvFileWriter({"width": 1920.0})
    begin_bytes = writer.file_bytes
    for second in range(3601):
        writer.add_tag(9, second * 1000, KEY, is_key=True)
    data = writer.finish()
    metadata = metadata_of(data)
    assert isinstance(metadata["keyframes"], dict)
    assert metadata["keyframes"]["times"] == [float(second) for second in range(3601)]
    assert len(data) == begin_bytes == 73_931


def test_a_day_of_key_frames_is_thinned_to_the_room() -> None:
    writer = FlvFileWriter(keyframe_room=1000)
    for second in range(86_400):
        writer.add_tag(9, second * 1000, KEY, is_key=True)
    metadata = metadata_of(writer.finish())
    assert isinstance(metadata["keyframes"], dict)
    assert metadata["keyframes"]["times"] == [float(second) for second in range(0, 86_400, 128)]
    assert metadata["duration"] == 86_399.0


def test_no_string_of_the_filler_is_too_long_for_ffmpeg() -> None:
    filler = metadata_of(FlvFileWriter().begin())["filler"]
    assert isinstance(filler, list)
    assert all(isinstance(item, str) and len(item) < 1024 for item in filler)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 130), st.integers(0, 120), st.integers(0, 2000))
def test_any_number_of_key_frames_fits_any_room_to_the_byte(room: int, keyframes: int, title_length: int) -> None:
    writer = FlvFileWriter({"title": "x" * title_length}, keyframe_room=room)
    begin = writer.begin()
    for second in range(keyframes):
        writer.add_tag(9, second * 1000, KEY, is_key=True)
    finish = writer.finish()
    assert len(finish) == len(begin)
    assert ReservedMetadata.read(finish[24:-4]) is not None


@pytest.mark.parametrize("spare", [0, 1, *range(950, 958)])  # with the 47 bytes of an empty index: up to 1,004
def test_the_filler_takes_up_every_spare_byte(spare: int) -> None:
    payload_bytes = ReservedMetadata.with_room({}, 0).payload_bytes + spare
    payload = ReservedMetadata({}, payload_bytes).write(FlvIndexer(), 0)
    assert len(payload) == payload_bytes
    assert read_flv_metadata(payload) is not None


def test_metadata_larger_than_a_tag_is_refused() -> None:
    with pytest.raises(MalformedMedia, match="flv: metadata of 16777334 bytes, a tag holds 16777215"):
        FlvFileWriter({"title": "x" * 16_777_163}, keyframe_room=0)


@pytest.mark.parametrize("room", [-1, 65_537])
def test_room_out_of_bounds_is_a_misuse(room: int) -> None:
    with pytest.raises(MisuseError, match=f"room for {room} key frames, outside 0 to 65536"):
        FlvFileWriter(keyframe_room=room)


def test_more_key_frames_than_room_are_a_misuse() -> None:
    index = FlvIndexer()
    for second in range(100):
        index.add_tag(9, second * 1000, second, KEY, True)
    with pytest.raises(MisuseError, match="longer than the"):
        ReservedMetadata.with_room({}, 50).write(index, 0)


def test_ffmpegs_own_metadata_is_read() -> None:
    data = golden_bytes("flv/script_data.flv")
    scripts = [data[head.offset + 11 :][: head.payload_bytes] for head in scan_tags(data, 13) if head.kind == 18]
    name, value = read_flv_metadata(scripts[0]) or ("", None)
    assert name == "onMetaData"
    assert isinstance(value, EcmaArray)
    assert (value["title"], value["width"], value["filesize"]) == ("Grüße", 160.0, 13386.0)
    assert value["keyframes"] == {"filepositions": [880.0, 4319.0, 7374.0, 10350.0], "times": [0.0, 0.5, 1.0, 1.5]}
    assert read_flv_metadata(scripts[1]) == ("onTextData", {"type": "Text", "text": "Bonjour"})


def test_an_amf3_script_tag_has_a_format_byte_before_the_same_values() -> None:
    assert read_flv_metadata(b"\x00" + write_amf0_values("onCuePoint", {"name": "x"})) == ("onCuePoint", {"name": "x"})


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"\x02\x00",
        bytes.fromhex("02000178"),  # a name without a value
        bytes.fromhex("05 05"),  # null for a name
        bytes.fromhex("020001780a7fffffff"),
        bytes.fromhex("02000178") + b"\x0a\0\0\0\x01" * 5000,
    ],
)
def test_damaged_script_data_is_absence(payload: bytes) -> None:
    assert read_flv_metadata(payload) is None


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80), st.booleans())
def test_any_script_data_is_a_pair_or_absence(data: bytes, is_named: bool) -> None:
    payload = b"\x02\x00\x0aonMetaData" + data if is_named else data
    read = read_flv_metadata(payload)
    assert read is None or isinstance(read[0], str)
    ReservedMetadata.read(payload)


@pytest.mark.parametrize(
    "payload",
    [
        write_amf0_values("onMetaData", EcmaArray({"duration": 1.0})),
        write_amf0_values("onMetaData", EcmaArray({"filler": "text"})),
        write_amf0_values("onMetaData", EcmaArray({"filler": []})),  # no room for our members
        write_amf0_values("onMetaData", {"filler": [" " * 500]}),
        write_amf0_values("onCuePoint", EcmaArray({"filler": [" " * 500]})),
    ],
)
def test_other_writers_metadata_is_not_taken_for_ours(payload: bytes) -> None:
    assert ReservedMetadata.read(payload) is None


def test_the_size_field_holds_a_double() -> None:
    index = FlvIndexer()
    payload = ReservedMetadata.with_room({}, 0).write(index, 5_000_000_000)
    assert struct.pack(">d", 5e9) in payload
