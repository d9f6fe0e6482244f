"""Tags of a recording to fragmented MP4: where fragments begin, what is carried, and how much is held."""

import pytest

from penstock.errors import MalformedMedia
from penstock.media.flv import AUDIO_TAG, SCRIPT_TAG, VIDEO_TAG, FlvTag
from penstock.media.flv_to_mp4 import MAX_FRAGMENT_BYTES, FlvToMp4

SPS = bytes.fromhex("6742c01ed90143a7a10000030001000003003c8f162e48")
PPS = bytes.fromhex("68cb83cb20")
RECORD = bytes.fromhex("0142c01effe1") + len(SPS).to_bytes(2, "big") + SPS + b"\x01" + len(PPS).to_bytes(2, "big") + PPS
OTHER_RECORD = RECORD[:-1] + b"\x21"
AAC_RECORD = bytes.fromhex("1190")
PICTURE = b"\x00\x00\x00\x02\x65\x88"


def setup(record: bytes = RECORD) -> FlvTag:
    return FlvTag(VIDEO_TAG, 0, b"\x17\x00\x00\x00\x00" + record, 0)


def sound_setup() -> FlvTag:
    return FlvTag(AUDIO_TAG, 0, b"\xaf\x00" + AAC_RECORD, 0)


def picture(at_ms: int, *, is_key: bool = False, body: bytes = PICTURE) -> FlvTag:
    return FlvTag(VIDEO_TAG, at_ms, (b"\x17" if is_key else b"\x27") + b"\x01\x00\x00\x00" + body, 0)


def sound(at_ms: int) -> FlvTag:
    return FlvTag(AUDIO_TAG, at_ms, b"\xaf\x01\x21\x10", 0)


def boxes(data: bytes) -> list[bytes]:
    names = []
    while data:
        size = int.from_bytes(data[:4], "big")
        names.append(data[4:8])
        data = data[size:]
    return names


def begin(*tags: FlvTag) -> FlvToMp4:
    mp4 = FlvToMp4()
    for tag in tags:
        assert mp4.take(tag) == b""
    return mp4


def test_the_first_fragment_comes_with_the_init_segment_and_the_next_key_frame_ends_it() -> None:
    mp4 = begin(setup(), sound_setup(), picture(0, is_key=True), sound(5), picture(40), sound(28))
    assert boxes(mp4.take(picture(1000, is_key=True))) == [b"ftyp", b"moov", b"moof", b"mdat"]
    assert mp4.take(picture(1040)) == b""
    assert boxes(mp4.finish()) == [b"moof", b"mdat"]
    assert mp4.take(picture(2000, is_key=True)) == b""


def test_a_fragment_has_the_bytes_of_its_frames_as_they_were_pictures_first() -> None:
    mp4 = begin(setup(), sound_setup(), picture(0, is_key=True), sound(0), picture(40, body=b"\x00\x00\x00\x01\x41"))
    data = mp4.finish()
    assert data.endswith(b"mdat" + PICTURE + b"\x00\x00\x00\x01\x41" + b"\x21\x10")


def test_pictures_before_the_first_key_frame_are_left_out() -> None:
    mp4 = begin(setup(), picture(0), picture(40), picture(80, is_key=True, body=b"\x00\x00\x00\x01\x67"))
    assert mp4.finish().endswith(b"mdat\x00\x00\x00\x01\x67")


def test_time_begins_at_nought_wherever_the_recording_is_entered_and_runs_on_over_the_wrap() -> None:
    mp4 = begin(setup(), picture(0xFFFFFF00, is_key=True), picture(0xFFFFFFFE))
    first = mp4.take(picture(1000, is_key=True))
    second = mp4.finish()
    assert first.split(b"tfdt")[1][:12] == b"\x01\x00\x00\x00" + (0).to_bytes(8, "big")
    assert second.split(b"tfdt")[1][:12] == b"\x01\x00\x00\x00" + (1256).to_bytes(8, "big")


def test_a_long_group_of_pictures_is_cut_by_time_and_by_size() -> None:
    mp4 = begin(setup(), picture(0, is_key=True), picture(1999))
    assert mp4.take(picture(2000)) != b""
    large = b"\x00" * (MAX_FRAGMENT_BYTES - len(PICTURE))
    mp4 = begin(setup(), picture(0, is_key=True), picture(40, body=large))
    assert len(mp4.take(picture(80))) > MAX_FRAGMENT_BYTES


def test_key_frames_in_quick_succession_share_a_fragment() -> None:
    begin(setup(), picture(0, is_key=True), picture(40, is_key=True), picture(249, is_key=True))


def test_sound_alone_is_cut_by_time() -> None:
    mp4 = begin(sound_setup(), sound(0), sound(1000))
    assert boxes(mp4.take(sound(2000))) == [b"ftyp", b"moov", b"moof", b"mdat"]


def test_another_decoder_configuration_ends_it() -> None:
    mp4 = begin(setup(), picture(0, is_key=True))
    assert mp4.take(picture(1000, is_key=True)) != b""
    assert mp4.take(setup()) == b""
    assert boxes(mp4.take(setup(OTHER_RECORD))) == [b"moof", b"mdat"]
    assert mp4.is_over


def test_what_cannot_be_read_is_passed_over() -> None:
    begin(
        FlvTag(VIDEO_TAG, 0, b"", 0),
        FlvTag(VIDEO_TAG, 0, b"\xff\xff", 0),
        FlvTag(AUDIO_TAG, 0, b"", 0),
        FlvTag(SCRIPT_TAG, 0, b"\x02", 0),
        FlvTag(VIDEO_TAG, 0, b"\x17\x01\x00\x00\x00", 0),
    )


@pytest.mark.parametrize(
    "tags",
    [
        [],
        [picture(0)],
        [FlvTag(VIDEO_TAG, 0, b"\x12" + bytes(10), 0)],
        [FlvTag(AUDIO_TAG, 0, b"\x2a\x00", 0)],
        [picture(0, is_key=True)],
    ],
)
def test_what_no_player_would_take_is_refused(tags: list[FlvTag]) -> None:
    with pytest.raises(MalformedMedia, match="nothing of it can be carried in MP4"):
        begin(*tags).finish()


def test_decoder_configuration_from_before_the_place_is_heeded_and_frames_there_are_not() -> None:
    mp4 = FlvToMp4()
    for tag in (setup(), picture(0, is_key=True), sound_setup()):
        mp4.set_up(tag)
    assert mp4.take(picture(9000, is_key=True)) == b""
    assert mp4.take(sound(9000)) == b""
    assert mp4.finish().count(b"trak") == 2
