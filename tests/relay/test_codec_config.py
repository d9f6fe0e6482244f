"""Which set-up is in force at a point of a stream, and what one who joins there gets."""

import struct

import pytest

from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.codec_config import CodecConfig
from tests.relay.support import audio, audio_setup, inter, metadata, video_setup
from tests.support.independent_rtmp import read_amf0_values

DURATION_AND_CODECS = bytes.fromhex(
    "08 00000003"
    "0008 6475726174696f6e 00 0000000000000000"
    "000c 766964656f636f646563696400 401c000000000000"
    "000c 617564696f636f6465636964 00 4024000000000000"
    "000009"
)


def tracks(tag: bytes, *ids: int) -> Frame:
    """Set-up for several video tracks in one message: Enhanced RTMP, ManyTracks, sequence start, AVC."""
    body = b"".join(bytes((track_id,)) + b"\x00\x00\x03" + tag for track_id in ids)
    return frame_of(FrameKind.VIDEO, 0, bytes.fromhex("96 10") + b"avc1" + body)


def color_info(tag: bytes) -> Frame:
    """HDR facts: Enhanced RTMP, packet type metadata, HEVC."""
    return frame_of(FrameKind.VIDEO, 0, b"\x94hvc1" + tag)


def after(*frames: Frame) -> CodecConfig:
    config = CodecConfig()
    for frame in frames:
        config = config.with_frame(frame)
    return config


def joining_metadata(config: CodecConfig) -> dict[str, object]:
    (name, properties) = read_amf0_values(config.joining_frames(0)[0].payload)
    assert name == "onMetaData"
    assert isinstance(properties, dict)
    return properties


def test_set_up_of_different_slots_stays_in_arrival_order() -> None:
    frames = (metadata(), audio_setup(), video_setup(), color_info(b"hdr"))
    assert after(*frames).frames == frames


def test_new_set_up_replaces_what_filled_the_same_slot_and_comes_last() -> None:
    first, sound, second = video_setup(0, b"one"), audio_setup(), video_setup(0, b"two")
    assert after(first, sound, second).frames == (sound, second)


def test_what_describes_a_track_is_its_decoder_configuration_and_not_its_colours_behind_it() -> None:
    config = after(metadata(), audio_setup(), video_setup(), color_info(b"hdr"))
    assert config.decoder_setups == {
        FrameKind.AUDIO: audio_setup().payload,
        FrameKind.VIDEO: video_setup().payload,
    }


def test_a_message_for_two_tracks_stays_while_one_of_them_is_in_force() -> None:
    both, one = tracks(b"old", 0, 1), tracks(b"new", 1)
    assert after(both, one).frames == (both, one)


def test_a_message_for_two_tracks_goes_when_one_message_fills_both() -> None:
    assert after(tracks(b"old", 0, 1), tracks(b"new", 0, 1)).frames == (tracks(b"new", 0, 1),)


def test_a_message_for_two_tracks_goes_when_two_messages_fill_one_each() -> None:
    both, zero, one = tracks(b"old", 0, 1), tracks(b"new", 0), tracks(b"new", 1)
    assert after(both, zero, one).frames == (zero, one)


def test_overlapping_messages_do_not_pile_up() -> None:
    config = CodecConfig()
    for track_id in range(1, 256):
        config = config.with_frame(tracks(b"abc", 0, track_id))
    assert len(config.frames) <= 64
    assert config.frames[-1] == tracks(b"abc", 0, 255)


def test_set_up_for_more_tracks_than_a_stream_has_is_forgotten_oldest_first() -> None:
    frames = [tracks(b"abc", track_id) for track_id in range(256)]
    assert after(*frames).frames == tuple(frames[-64:])


def test_set_up_too_large_to_keep_still_ends_what_it_supersedes() -> None:
    sound = audio_setup()
    assert after(video_setup(), sound, video_setup(0, bytes(300_000))).frames == (sound,)


def test_set_up_as_a_whole_is_bounded_in_bytes() -> None:
    frames = [tracks(b"abc", track_id)._replace(payload=bytes(100_000)) for track_id in range(5)]
    assert after(*frames).frames == tuple(frames[-2:])


def test_metadata_taken_back_is_gone_and_the_rest_stays() -> None:
    assert after(metadata(), video_setup()).without_metadata().frames == (video_setup(),)


def test_one_who_joins_gets_metadata_first_and_everything_at_the_time_of_its_place() -> None:
    config = after(video_setup(7), metadata(8), audio_setup(9)).with_media(inter(10)).with_media(audio(10))
    joining = config.joining_frames(5000)
    assert [frame.kind for frame in joining] == [FrameKind.DATA, FrameKind.VIDEO, FrameKind.AUDIO]
    assert {frame.timestamp_ms for frame in joining} == {5000}
    assert joining[1].payload == video_setup().payload


def test_joining_metadata_is_an_ecma_array_with_its_end_marker() -> None:
    payload = after(metadata()).joining_frames(0)[0].payload
    assert payload.startswith(bytes.fromhex("02 000a 6f6e4d65746144617461 08"))
    assert payload.endswith(bytes.fromhex("000009"))


def test_metadata_sent_as_an_object_becomes_an_ecma_array_and_keeps_its_values() -> None:
    sent = metadata(body=bytes.fromhex("03 0005 7769647468 00 4094000000000000 000009"))
    config = after(sent)
    assert config.joining_frames(0)[0].payload[13] == 8
    assert joining_metadata(config) == {"width": 1280.0}


@pytest.mark.parametrize("published", [(), (metadata(body=DURATION_AND_CODECS),)], ids=["none sent", "both named"])
@pytest.mark.parametrize(
    ("media", "named"),
    [
        ((), set()),
        ((audio(0),), {"audiocodecid"}),
        ((inter(0),), {"videocodecid"}),
        ((audio(0), inter(0)), {"audiocodecid", "videocodecid"}),
    ],
    ids=["no media", "audio", "video", "both"],
)
def test_joining_metadata_names_exactly_the_tracks_that_exist(
    published: tuple[Frame, ...], media: tuple[Frame, ...], named: set[str]
) -> None:
    config = after(*published)
    for frame in media:
        config = config.with_media(frame)
    assert {name for name in joining_metadata(config) if name.endswith("codecid")} == named


@pytest.mark.parametrize(
    ("frame", "name", "number"),
    [
        (inter(0), "videocodecid", 7.0),
        (audio(0), "audiocodecid", 10.0),
        (frame_of(FrameKind.AUDIO, 0, b"\x2f\x00"), "audiocodecid", 2.0),
        (frame_of(FrameKind.VIDEO, 0, b"\xa1hvc1\x00\x00\x00x"), "videocodecid", float(0x68766331)),
        (frame_of(FrameKind.VIDEO, 0, b"\x91av01x"), "videocodecid", float(0x61763031)),
        (frame_of(FrameKind.AUDIO, 0, b"\x91Opusx"), "audiocodecid", float(0x4F707573)),
    ],
    ids=["AVC", "AAC", "MP3", "HEVC", "AV1", "Opus"],
)
def test_a_codec_is_named_by_its_number_or_its_four_letters(frame: Frame, name: str, number: float) -> None:
    assert joining_metadata(CodecConfig().with_media(frame)) == {name: number}


def test_a_codec_named_by_text_gets_its_number_instead() -> None:
    text = bytes.fromhex("08 00000001 000c 766964656f636f6465636964 02 0004 61766331 000009")
    assert joining_metadata(after(metadata(body=text)).with_media(inter(0))) == {"videocodecid": 7.0}


def test_a_number_that_the_publisher_chose_is_left_alone() -> None:
    number = bytes.fromhex("08 00000001 000c 766964656f636f6465636964 00") + struct.pack(">d", 4.0) + b"\x00\x00\x09"
    assert joining_metadata(after(metadata(body=number)).with_media(inter(0))) == {"videocodecid": 4.0}


def test_media_of_unknown_codecs_is_not_named() -> None:
    unknown = frame_of(FrameKind.VIDEO, 0, b"\x1f")
    silent = frame_of(FrameKind.AUDIO, 0, b"")
    assert joining_metadata(CodecConfig().with_media(unknown).with_media(silent)) == {}


@pytest.mark.parametrize("body", [b"", bytes.fromhex("00 0000000000000000")], ids=["none", "number"])
def test_metadata_without_properties_is_replaced_by_what_is_known(body: bytes) -> None:
    assert joining_metadata(after(metadata(body=body)).with_media(audio(0))) == {"audiocodecid": 10.0}


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        bytes.fromhex("03 0001 61 04 000009"),
        bytes.fromhex("03 0001 61 07 0000 000009"),
        bytes.fromhex("0a 00000400") + b"\x05" * 1024,
        bytes.fromhex("0a 00000081 02 0100") + b"x" * 256 + bytes.fromhex("07 0000") * 128,
        bytes.fromhex("0a 00000082 03 0001 61 02 0100") + b"x" * 256 + b"\0\0\x09" + bytes.fromhex("07 0001") * 129,
    ],
    ids=["broken", "unknown marker", "circular", "too many values", "circular array", "references that multiply"],
)
def test_metadata_that_cannot_be_read_is_passed_on_as_it_came(body: bytes) -> None:
    sent = metadata(body=body)
    config = after(sent, video_setup()).with_media(inter(0)).with_media(audio(0))
    assert config.joining_metadata(5000).payload == sent.payload
    assert config.has_metadata


def test_references_that_repeat_little_are_written_out() -> None:
    body = bytes.fromhex("03 0001 61 03 0001 62 05 000009 0001 63 07 0001 000009")
    assert joining_metadata(after(metadata(body=body))) == {"a": {"b": None}, "c": {"b": None}}
