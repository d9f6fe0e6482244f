"""Frames: what the relay learns of a message, by the short way and by the long one."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.frame import Frame, FrameKind, SetupSlot, frame_of
from penstock.media.packets import PacketKind
from penstock.media.tags import read_audio_tag, read_video_tag
from tests.media import setup_messages as golden

AUDIO, VIDEO, DATA = FrameKind.AUDIO, FrameKind.VIDEO, FrameKind.DATA


def slot(kind: FrameKind, packet_kind: PacketKind = PacketKind.SETUP, track_id: int = 0) -> tuple[SetupSlot, ...]:
    return (SetupSlot(kind, track_id, packet_kind),)


def key(kind: FrameKind, payload: bytes) -> Frame:
    return Frame(kind, 40, payload, is_key=True, is_setup=False, is_malformed=False, setup_slots=())


def plain(kind: FrameKind, payload: bytes) -> Frame:
    return Frame(kind, 40, payload, is_key=False, is_setup=False, is_malformed=False, setup_slots=())


def malformed(kind: FrameKind, payload: bytes) -> Frame:
    return Frame(kind, 40, payload, is_key=False, is_setup=False, is_malformed=True, setup_slots=())


def setup(kind: FrameKind, payload: bytes, slots: tuple[SetupSlot, ...]) -> Frame:
    return Frame(kind, 40, payload, is_key=False, is_setup=True, is_malformed=False, setup_slots=slots)


def test_the_kinds_are_the_numbers_of_rtmp_and_flv() -> None:
    assert (AUDIO, VIDEO, DATA) == (8, 9, 18)


@pytest.mark.parametrize(
    "payload",
    [
        bytes.fromhex("1701000043 00000002 6588"),
        bytes.fromhex("4701000000"),
        bytes.fromhex("1c01000000"),
        golden.H263_KEY_FRAME,
        golden.SCREEN_KEY_FRAME,
        bytes.fromhex("91 68766331 000021 aa"),
        bytes.fromhex("93 61766331 aa"),
        golden.VP9_PROFILE0_KEY,
        bytes.fromhex("96 03 68766331 00 aa"),
        bytes.fromhex("97 02 07a120 01 68766331 000000 aa"),
        bytes.fromhex("83 68766331 00000003 2601af"),
    ],
)
def test_a_place_to_start(payload: bytes) -> None:
    assert frame_of(VIDEO, 40, payload) == key(VIDEO, payload)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (VIDEO, bytes.fromhex("2701000000")),
        (VIDEO, bytes.fromhex("3200")),
        (VIDEO, bytes.fromhex("a3 68766331 aa")),
        (VIDEO, bytes.fromhex("a1 61763031 aa")),
        (VIDEO, golden.VP9_PROFILE0_INTER),
        (VIDEO, bytes.fromhex("1702000000")),
        (VIDEO, bytes.fromhex("1702")),
        (VIDEO, bytes.fromhex("92 68766331")),
        (VIDEO, bytes.fromhex("5700")),
        (VIDEO, bytes.fromhex("d100")),
        (VIDEO, bytes.fromhex("83 68766331 00000003 0201af")),
        # A key picture, but not on the default track.
        (VIDEO, bytes.fromhex("96 03 68766331 01 aa")),
        (AUDIO, bytes.fromhex("af01 21")),
        (AUDIO, golden.MP3_FRAME),
        (AUDIO, golden.SPEEX_FRAME),
        (AUDIO, bytes.fromhex("91 4f707573 fc")),
        (AUDIO, bytes.fromhex("92 4f707573")),
        (AUDIO, bytes.fromhex("95 01 4f707573 02 fc")),
        (AUDIO, b""),
        (DATA, bytes.fromhex("02000a") + b"onTextData"),
        (DATA, bytes.fromhex("02000a") + b"onMetaDat"),
        (DATA, b""),
    ],
)
def test_a_frame_like_others(kind: FrameKind, payload: bytes) -> None:
    assert frame_of(kind, 40, payload) == plain(kind, payload)


@pytest.mark.parametrize(
    ("kind", "payload", "slots"),
    [
        (VIDEO, golden.AVC_HIGH_1080P30, slot(VIDEO)),
        (VIDEO, golden.HEVC_MAIN_1080P30, slot(VIDEO)),
        (VIDEO, golden.AV1_EMPTY_SETUP, slot(VIDEO)),
        (VIDEO, golden.AV1_MAIN_360P30, slot(VIDEO)),
        (VIDEO, bytes.fromhex("80 68766331 01"), slot(VIDEO)),
        # The MPEG-2 TS form takes the place of the other one.
        (VIDEO, bytes.fromhex("95 61763031 80"), slot(VIDEO)),
        (VIDEO, bytes.fromhex("d4 68766331 02"), slot(VIDEO, PacketKind.METADATA)),
        (VIDEO, bytes.fromhex("84 68766331 02"), slot(VIDEO, PacketKind.METADATA)),
        (VIDEO, bytes.fromhex("96 00 68766331 01 01"), slot(VIDEO, track_id=1)),
        (VIDEO, bytes.fromhex("96 10 68766331 00 000000 03 000000"), slot(VIDEO) + slot(VIDEO, track_id=3)),
        (VIDEO, bytes.fromhex("d6 04 68766331 02 02"), slot(VIDEO, PacketKind.METADATA, track_id=2)),
        (AUDIO, golden.AAC_LC_48K_STEREO, slot(AUDIO)),
        (AUDIO, b"\x90Opus" + golden.OPUS_HEAD_STEREO, slot(AUDIO)),
        (AUDIO, bytes.fromhex("94 4f707573 0002"), slot(AUDIO, PacketKind.MULTICHANNEL_CONFIG)),
        (AUDIO, bytes.fromhex("95 00 6d703461 05 1190"), slot(AUDIO, track_id=5)),
        (DATA, bytes.fromhex("02000a") + b"onMetaData\x08", slot(DATA, PacketKind.METADATA)),
        (
            DATA,
            bytes.fromhex("02000d") + b"@setDataFrame" + bytes.fromhex("02000a") + b"onMetaData\x08",
            slot(DATA, PacketKind.METADATA),
        ),
    ],
)
def test_what_a_late_joiner_must_get(kind: FrameKind, payload: bytes, slots: tuple[SetupSlot, ...]) -> None:
    assert frame_of(kind, 40, payload) == setup(kind, payload, slots)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (VIDEO, ""),
        (VIDEO, "17"),
        (VIDEO, "170100"),
        (VIDEO, "17010000"),
        (VIDEO, "1703000000"),
        (VIDEO, "18"),
        (VIDEO, "90687663"),
        (VIDEO, "91687663310000"),
        (VIDEO, "9078787878"),
        (VIDEO, "9868766331"),
        (VIDEO, "9630"),
        (AUDIO, "af"),
        (AUDIO, "af02"),
        (AUDIO, "c0"),
        (AUDIO, "904f7075"),
        (AUDIO, "934f707573"),
    ],
)
def test_what_cannot_be_read_travels_but_starts_nobody(kind: FrameKind, payload: str) -> None:
    data = bytes.fromhex(payload)
    assert frame_of(kind, 40, data) == malformed(kind, data)


def expected_by_the_full_readers(kind: FrameKind, payload: bytes) -> Frame:
    try:
        tag = read_video_tag(payload) if kind is VIDEO else read_audio_tag(payload)
    except MalformedMedia:
        return malformed(kind, payload)
    slot_kinds = {
        PacketKind.SETUP: PacketKind.SETUP,
        PacketKind.MPEG2TS_SETUP: PacketKind.SETUP,
        PacketKind.METADATA: PacketKind.METADATA,
        PacketKind.MULTICHANNEL_CONFIG: PacketKind.MULTICHANNEL_CONFIG,
    }
    if tag.packet_kind in slot_kinds:
        slots = tuple(SetupSlot(kind, track.track_id, slot_kinds[tag.packet_kind]) for track in tag.tracks)
        return setup(kind, payload, slots)
    if kind is VIDEO and read_video_tag(payload).is_key:
        return key(kind, payload)
    return plain(kind, payload)


FOURCCS = [b"avc1", b"hvc1", b"vvc1", b"av01", b"vp09", b"vp08", b"mp4a", b"Opus", b"fLaC", b".mp3", b"ac-3", b"ec-3"]


@pytest.mark.parametrize("kind", [VIDEO, AUDIO])
def test_the_short_way_says_what_the_full_reader_says_for_every_first_byte_and_size(kind: FrameKind) -> None:
    tails = [bytes((second,)) + bytes(7) for second in range(4)] + [fourcc + bytes(4) for fourcc in FOURCCS]
    for first in range(256):
        for tail in tails:
            for size in range(9):
                payload = (bytes((first,)) + tail)[:size]
                assert frame_of(kind, 40, payload) == expected_by_the_full_readers(kind, payload)


@given(
    st.sampled_from([VIDEO, AUDIO]),
    st.integers(0, 255),
    st.sampled_from([b"", b"\x00", b"\x01", *FOURCCS]),
    st.binary(max_size=24),
)
@settings(max_examples=300)
def test_the_short_way_says_what_the_full_reader_says(kind: FrameKind, first: int, head: bytes, rest: bytes) -> None:
    payload = bytes((first,)) + head + rest
    assert frame_of(kind, 40, payload) == expected_by_the_full_readers(kind, payload)


def test_the_payload_is_carried_not_copied() -> None:
    payload = bytes.fromhex("2701000000") + bytes(1000)
    frame = frame_of(VIDEO, 2**40, payload)
    assert frame.payload is payload
    assert frame.timestamp_ms == 2**40


def test_a_frame_goes_to_another_process_and_back() -> None:
    frame = frame_of(VIDEO, 40, golden.AVC_HIGH_1080P30)
    assert pickle.loads(pickle.dumps(frame)) == frame


def test_more_tracks_than_a_message_may_have_are_passed_on_as_malformed() -> None:
    setup = bytes.fromhex("96 10 61766331") + b"".join(bytes((track, 0, 0, 0)) for track in range(32))
    slots = tuple(SetupSlot(FrameKind.VIDEO, track, PacketKind.SETUP) for track in range(32))
    assert frame_of(FrameKind.VIDEO, 40, setup).setup_slots == slots
    too_many = setup + bytes((32, 0, 0, 0))
    assert frame_of(FrameKind.VIDEO, 40, too_many) == malformed(FrameKind.VIDEO, too_many)
