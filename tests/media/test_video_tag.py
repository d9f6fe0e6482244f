"""Video tags: every legacy form, and the worked bytes of Enhanced RTMP v2."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.codecs import VideoCodec
from penstock.media.packets import PacketKind, TrackPacket
from penstock.media.tags import video_codec_of
from penstock.media.video_tag import Picture, VideoCommand, VideoTag, read_video_tag
from tests.media import setup_messages as golden

HEVC_IDR = "00000003 2601af"
HEVC_TRAILING = "00000003 0201af"


def packet(
    codec: VideoCodec,
    kind: PacketKind,
    body: tuple[int, int],
    composition_time_ms: int = 0,
    track_id: int = 0,
) -> TrackPacket[VideoCodec]:
    return TrackPacket(track_id, codec, kind, composition_time_ms, body[0], body[1])


@pytest.mark.parametrize(
    ("payload", "codec"),
    [
        ("12", VideoCodec.SORENSON_H263),
        ("13", VideoCodec.SCREEN),
        ("14", VideoCodec.VP6),
        ("15", VideoCodec.VP6_ALPHA),
        ("16", VideoCodec.SCREEN_V2),
    ],
)
def test_a_legacy_picture_without_packet_types_begins_at_once(payload: str, codec: VideoCodec) -> None:
    frame = packet(codec, PacketKind.FRAME, (1, 3))
    tag = VideoTag(PacketKind.FRAME, Picture.KEY, (frame,))
    assert read_video_tag(bytes.fromhex(payload + "aabb")) == tag
    assert tag.codec is codec
    assert tag.is_key


@pytest.mark.parametrize(
    ("first", "picture", "is_key"),
    [
        ("12", Picture.KEY, True),
        ("22", Picture.INTER, False),
        ("32", Picture.DISPOSABLE, False),
        ("42", Picture.GENERATED_KEY, True),
        ("02", None, False),
        ("62", None, False),
        ("72", None, False),
    ],
)
def test_legacy_frame_types(first: str, picture: Picture | None, is_key: bool) -> None:
    tag = read_video_tag(bytes.fromhex(first + "00"))
    assert (tag.picture, tag.is_key) == (picture, is_key)


@pytest.mark.parametrize(("codec_id", "codec"), [("7", VideoCodec.AVC), ("c", VideoCodec.HEVC)])
def test_legacy_avc_and_hevc_packets(codec_id: str, codec: VideoCodec) -> None:
    def read(text: str) -> VideoTag:
        return read_video_tag(bytes.fromhex(text))

    setup = packet(codec, PacketKind.SETUP, (5, 7))
    assert read(f"1{codec_id} 00 000000 0164") == VideoTag(PacketKind.SETUP, None, (setup,))
    key = packet(codec, PacketKind.FRAME, (5, 7), composition_time_ms=67)
    assert read(f"1{codec_id} 01 000043 0000") == VideoTag(PacketKind.FRAME, Picture.KEY, (key,))
    inter = packet(codec, PacketKind.FRAME, (5, 5), composition_time_ms=-33)
    assert read(f"2{codec_id} 01 ffffdf") == VideoTag(PacketKind.FRAME, Picture.INTER, (inter,))
    end = packet(codec, PacketKind.END_OF_SEQUENCE, (5, 5))
    assert read(f"1{codec_id} 02 000000") == VideoTag(PacketKind.END_OF_SEQUENCE, None, (end,))
    short_end = packet(codec, PacketKind.END_OF_SEQUENCE, (2, 2))
    assert read(f"1{codec_id} 02") == VideoTag(PacketKind.END_OF_SEQUENCE, None, (short_end,))


@pytest.mark.parametrize("payload", ["5200", "5700", "570000000000", "d100", "d000", "d600"])
def test_a_command_starts_a_seek_and_names_no_codec(payload: str) -> None:
    tag = read_video_tag(bytes.fromhex(payload))
    assert tag == VideoTag(PacketKind.COMMAND, None, (), command=VideoCommand.SEEK_STARTS)
    assert tag.codec is None
    assert tag.composition_time_ms == 0
    assert not tag.is_key


@pytest.mark.parametrize("payload", ["5201", "5701", "570100000001", "d101"])
def test_a_command_ends_a_seek(payload: str) -> None:
    assert read_video_tag(bytes.fromhex(payload)).command is VideoCommand.SEEK_ENDS


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (
            "90 68766331 0101",
            VideoTag(PacketKind.SETUP, None, (packet(VideoCodec.HEVC, PacketKind.SETUP, (5, 7)),)),
        ),
        (
            "91 68766331 000021 aa",
            VideoTag(PacketKind.FRAME, Picture.KEY, (packet(VideoCodec.HEVC, PacketKind.FRAME, (8, 9), 33),)),
        ),
        (
            "a3 68766331 aabb",
            VideoTag(PacketKind.FRAME, Picture.INTER, (packet(VideoCodec.HEVC, PacketKind.FRAME, (5, 7)),)),
        ),
        (
            "a1 61763031 aabb",
            VideoTag(PacketKind.FRAME, Picture.INTER, (packet(VideoCodec.AV1, PacketKind.FRAME, (5, 7)),)),
        ),
        (
            "92 61766331",
            VideoTag(PacketKind.END_OF_SEQUENCE, None, (packet(VideoCodec.AVC, PacketKind.END_OF_SEQUENCE, (5, 5)),)),
        ),
        (
            "95 61763031 80",
            VideoTag(PacketKind.MPEG2TS_SETUP, None, (packet(VideoCodec.AV1, PacketKind.MPEG2TS_SETUP, (5, 6)),)),
        ),
    ],
)
def test_plain_enhanced_messages(payload: str, expected: VideoTag) -> None:
    assert read_video_tag(bytes.fromhex(payload)) == expected


@pytest.mark.parametrize("first", ["84", "94", "d4"])
def test_frame_type_bits_mean_nothing_on_metadata(first: str) -> None:
    metadata = packet(VideoCodec.HEVC, PacketKind.METADATA, (5, 6))
    assert read_video_tag(bytes.fromhex(first + "68766331 02")) == VideoTag(PacketKind.METADATA, None, (metadata,))


def test_metadata_of_one_track_is_no_command() -> None:
    metadata = packet(VideoCodec.HEVC, PacketKind.METADATA, (7, 8), track_id=1)
    tag = VideoTag(PacketKind.METADATA, None, (metadata,))
    assert read_video_tag(bytes.fromhex("d6 04 68766331 01 02")) == tag


@pytest.mark.parametrize(
    ("fourcc", "codec", "has_composition_time"),
    [
        ("61766331", VideoCodec.AVC, True),
        ("68766331", VideoCodec.HEVC, True),
        ("76766331", VideoCodec.VVC, True),
        ("61763031", VideoCodec.AV1, False),
        ("76703039", VideoCodec.VP9, False),
        ("76703038", VideoCodec.VP8, False),
    ],
)
def test_only_reordering_codecs_carry_a_composition_time(
    fourcc: str, codec: VideoCodec, has_composition_time: bool
) -> None:
    tag = read_video_tag(bytes.fromhex(f"91{fourcc}00000aaabb"))
    start, time_ms = (8, 10) if has_composition_time else (5, 0)
    assert tag.tracks == (packet(codec, PacketKind.FRAME, (start, 10), time_ms),)
    assert tag.composition_time_ms == time_ms


def test_one_track_names_its_id_after_the_fourcc() -> None:
    setup = packet(VideoCodec.HEVC, PacketKind.SETUP, (7, 9), track_id=1)
    tag = read_video_tag(bytes.fromhex("96 00 68766331 01 0101"))
    assert tag == VideoTag(PacketKind.SETUP, None, (setup,))


def test_many_tracks_of_one_codec() -> None:
    payload = bytes.fromhex("a6 13 61766331 00 000100") + bytes(256) + bytes.fromhex("01 000080") + bytes(128)
    tag = read_video_tag(payload)
    assert tag.picture is Picture.INTER
    assert tag.tracks == (
        packet(VideoCodec.AVC, PacketKind.FRAME, (10, 266), track_id=0),
        packet(VideoCodec.AVC, PacketKind.FRAME, (270, 398), track_id=1),
    )


def test_many_tracks_of_many_codecs_count_composition_times_in_their_sizes() -> None:
    tag = read_video_tag(bytes.fromhex("96 21 61766331 00 000004 000021aa 61763031 02 000002 aabb"))
    assert tag.tracks == (
        packet(VideoCodec.AVC, PacketKind.FRAME, (13, 14), composition_time_ms=33, track_id=0),
        packet(VideoCodec.AV1, PacketKind.FRAME, (22, 24), track_id=2),
    )
    assert tag.is_key


def test_a_key_picture_of_another_track_is_no_place_to_start() -> None:
    tag = read_video_tag(bytes.fromhex("96 03 61766331 01 aabb"))
    assert tag.picture is Picture.KEY
    assert not tag.is_key


def test_a_nanosecond_offset_comes_before_the_packet() -> None:
    tag = read_video_tag(bytes.fromhex("97 02 07a120 01 68766331 000000 aa"))
    key = packet(VideoCodec.HEVC, PacketKind.FRAME, (13, 14))
    assert tag == VideoTag(PacketKind.FRAME, Picture.KEY, (key,), nanosecond_offset=500_000)


@pytest.mark.parametrize(
    ("modex", "nanosecond_offset"),
    [
        ("02 0f423f 03", 999_999),
        ("02 0f4240 03", None),
        ("01 07a1 03", None),
        ("03 07a120ff 03", 500_000),
        ("02 07a120 13", None),
        ("02 07a120 07 00 00 13", 500_000),
        ("ff 0002 07a120 03", 500_000),
    ],
)
def test_extensions_that_tell_nothing_are_skipped(modex: str, nanosecond_offset: int | None) -> None:
    tag = read_video_tag(bytes.fromhex(f"97 {modex} 61766331 aa"))
    assert tag.codec is VideoCodec.AVC
    assert tag.nanosecond_offset == nanosecond_offset


def test_a_long_extension_is_skipped_by_its_length() -> None:
    payload = bytes.fromhex("97 ff 00ff") + bytes(256) + bytes.fromhex("13 61766331 aa")
    assert read_video_tag(payload).tracks == (packet(VideoCodec.AVC, PacketKind.FRAME, (265, 266)),)


def test_extensions_lead_to_multitrack_and_to_commands() -> None:
    assert read_video_tag(bytes.fromhex("97 00 00 16 03 61766331 05 aa")).tracks[0].track_id == 5
    command = read_video_tag(bytes.fromhex("d7 02 000001 01 01"))
    assert (command.command, command.nanosecond_offset) == (VideoCommand.SEEK_ENDS, 1)


@pytest.mark.parametrize(("count", "is_read"), [(16, True), (17, False)])
def test_a_chain_of_extensions_is_bounded(count: int, is_read: bool) -> None:
    payload = b"\x97" + b"\x00\x00\x17" * (count - 1) + b"\x00\x00\x13" + b"avc1"
    if is_read:
        assert read_video_tag(payload).codec is VideoCodec.AVC
        return
    with pytest.raises(MalformedMedia, match="more than 16 ModEx extensions"):
        read_video_tag(payload)


@pytest.mark.parametrize(("count", "is_read"), [(32, True), (33, False)])
def test_the_number_of_tracks_is_bounded(count: int, is_read: bool) -> None:
    payload = bytes.fromhex("96 13 61766331") + bytes.fromhex("00 000000") * count
    if is_read:
        assert len(read_video_tag(payload).tracks) == 32
        return
    with pytest.raises(MalformedMedia, match="more than 32 tracks in 138 bytes"):
        read_video_tag(payload)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("", "video tag: empty payload"),
        ("10", "video tag: unknown codec id 0"),
        ("18", "video tag: unknown codec id 8"),
        ("17", "video tag: packet type needs 1 bytes at offset 1, payload has 1"),
        ("1703000000", "video tag: unknown packet type 3 of H.264 AVC"),
        ("17010000", "video tag: composition time needs 3 bytes at offset 2, payload has 4"),
        ("57", "video tag: command needs 1 bytes at offset 1, payload has 1"),
        ("5702", "video tag: unknown command 2"),
        ("90687663", "video tag: FourCC needs 4 bytes at offset 1, payload has 4"),
        ("9048564331", "video tag: unknown FourCC 48564331 at offset 1"),
        ("9868766331", "video tag: unknown packet type 8"),
        ("91687663310000", "video tag: composition time of track 0 in 2 bytes"),
        ("96", "video tag: multitrack type needs 1 bytes at offset 1, payload has 1"),
        ("9630", "video tag: unknown multitrack type 3"),
        ("960668766331 01", "video tag: unknown packet type 6"),
        ("960068766331", "video tag: track id needs 1 bytes at offset 6, payload has 6"),
        ("961068766331", "video tag: multitrack without a track in 6 bytes"),
        ("96106876633100", "video tag: track id and size needs 4 bytes at offset 6, payload has 7"),
        ("961068766331 07 000002 aa", "video tag: track 7 needs 2 bytes at offset 10, payload has 11"),
        ("9620687663", "video tag: FourCC needs 4 bytes at offset 2, payload has 5"),
        ("97", "video tag: ModEx size needs 1 bytes at offset 1, payload has 1"),
        ("97ff00", "video tag: long ModEx size needs 2 bytes at offset 2, payload has 3"),
        ("970207a120", "video tag: ModEx data and type needs 4 bytes at offset 2, payload has 5"),
    ],
)
def test_what_cannot_be_read_says_why(payload: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_video_tag(bytes.fromhex(payload))
    assert str(caught.value) == message
    assert video_codec_of(bytes.fromhex(payload)) is None


@pytest.mark.parametrize(
    ("payload", "picture"),
    [
        ("83 68766331" + HEVC_IDR, Picture.KEY),
        ("81 68766331 000021" + HEVC_IDR, Picture.KEY),
        ("83 68766331" + HEVC_TRAILING, Picture.INTER),
        ("86 03 68766331 00" + HEVC_IDR, Picture.KEY),
        # The default track counts, wherever it stands.
        ("86 13 68766331 01 000007" + HEVC_TRAILING + "00 000007" + HEVC_IDR, Picture.KEY),
        ("86 13 68766331 01 000007" + HEVC_IDR + "00 000007" + HEVC_TRAILING, Picture.INTER),
        ("e3 68766331" + HEVC_IDR, Picture.KEY),
        ("07 01 000000 00000002 6588", Picture.KEY),
        ("83 68766331", None),
        ("80 68766331" + HEVC_IDR, None),
    ],
)
def test_pictures_without_a_frame_type_are_told_by_their_bitstream(payload: str, picture: Picture | None) -> None:
    tag = read_video_tag(bytes.fromhex(payload))
    assert tag.picture is picture
    assert tag.is_key == (picture is Picture.KEY)


def test_the_nal_length_size_of_the_set_up_is_obeyed() -> None:
    payload = bytes.fromhex("83 61766331 0002 0910 0002 6588")
    assert read_video_tag(payload, nal_length_size=2).picture is Picture.KEY


@pytest.mark.parametrize(
    ("payload", "codec"),
    [
        (golden.AVC_HIGH_1080P30, VideoCodec.AVC),
        (golden.HEVC_MAIN_1080P30, VideoCodec.HEVC),
        (golden.AV1_MAIN_360P30, VideoCodec.AV1),
        (golden.VP9_PROFILE0_KEY, VideoCodec.VP9),
        (golden.H263_KEY_FRAME, VideoCodec.SORENSON_H263),
        (golden.SCREEN_KEY_FRAME, VideoCodec.SCREEN),
    ],
)
def test_the_codec_of_real_messages(payload: bytes, codec: VideoCodec) -> None:
    assert video_codec_of(payload) is codec


HEADERS = ["17", "2c", "57", "83", "91", "96", "97", "d6", "9100", "9610", "9620", "970000", "d7020000"]


@given(st.sampled_from([bytes.fromhex(header) for header in HEADERS] + [b""]), st.binary(max_size=40))
@settings(max_examples=300)
def test_any_bytes_give_a_tag_or_malformed_media(header: bytes, rest: bytes) -> None:
    payload = header + rest
    try:
        tag = read_video_tag(payload)
    except MalformedMedia:
        return
    for track in tag.tracks:
        assert track.packet_kind is tag.packet_kind
        assert 1 <= track.body_start <= track.body_end <= len(payload)


@given(st.binary(max_size=24), st.sampled_from([b"\x10", b"\x11", b"\x13", b"\x20", b"\x21"]))
@settings(max_examples=100)
def test_multitrack_messages_of_any_content_stay_inside_the_payload(rest: bytes, multitrack: bytes) -> None:
    payload = b"\x96" + multitrack + b"avc1\x00\x00\x00\x03abc" + rest
    try:
        tag = read_video_tag(payload)
    except MalformedMedia:
        return
    assert tag.tracks[-1].body_end == len(payload)
