"""Audio tags: every legacy form, and the worked bytes of Enhanced RTMP v2."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.audio_tag import (
    AudioTag,
    ChannelOrder,
    MultichannelConfig,
    read_audio_tag,
    read_multichannel_config,
)
from penstock.media.codecs import AudioCodec
from penstock.media.packets import PacketKind, TrackPacket
from penstock.media.tags import audio_codec_of
from tests.media import setup_messages as golden


def packet(codec: AudioCodec, kind: PacketKind, body: tuple[int, int], track_id: int = 0) -> TrackPacket[AudioCodec]:
    return TrackPacket(track_id, codec, kind, 0, body[0], body[1])


@pytest.mark.parametrize(
    ("first", "codec", "sample_rate_hz", "channels"),
    [
        ("03", AudioCodec.PCM_HOST_ORDER, 5512, 2),
        ("16", AudioCodec.ADPCM, 11025, 1),
        ("2b", AudioCodec.MP3, 22050, 2),
        ("2f", AudioCodec.MP3, 44100, 2),
        ("3e", AudioCodec.PCM_LE, 44100, 1),
        ("4f", AudioCodec.NELLYMOSER, 16000, 1),
        ("5f", AudioCodec.NELLYMOSER, 8000, 1),
        ("6e", AudioCodec.NELLYMOSER, 44100, 1),
        ("72", AudioCodec.G711_A_LAW, 8000, 1),
        ("83", AudioCodec.G711_MU_LAW, 8000, 2),
        ("b6", AudioCodec.SPEEX, 16000, 1),
        ("ef", AudioCodec.MP3, 8000, 2),
        ("ff", AudioCodec.NATIVE, None, None),
    ],
)
def test_a_legacy_frame_tells_codec_rate_and_channels(
    first: str, codec: AudioCodec, sample_rate_hz: int | None, channels: int | None
) -> None:
    frame = packet(codec, PacketKind.FRAME, (1, 3))
    expected = AudioTag(PacketKind.FRAME, (frame,), sample_rate_hz=sample_rate_hz, channels=channels)
    assert read_audio_tag(bytes.fromhex(first + "aabb")) == expected


def test_legacy_aac_has_set_up_and_frames_and_its_header_is_not_believed() -> None:
    setup = packet(AudioCodec.AAC, PacketKind.SETUP, (2, 4))
    assert read_audio_tag(bytes.fromhex("af00 1190")) == AudioTag(PacketKind.SETUP, (setup,))
    frame = packet(AudioCodec.AAC, PacketKind.FRAME, (2, 3))
    assert read_audio_tag(bytes.fromhex("af01 21")) == AudioTag(PacketKind.FRAME, (frame,))


def test_an_empty_message_is_silence() -> None:
    tag = read_audio_tag(b"")
    assert tag == AudioTag(PacketKind.SILENCE, ())
    assert tag.codec is None
    assert audio_codec_of(b"") is None


@pytest.mark.parametrize(
    ("payload", "codec", "kind"),
    [
        ("90 4f707573", AudioCodec.OPUS, PacketKind.SETUP),
        ("91 6d703461", AudioCodec.AAC, PacketKind.FRAME),
        ("90 664c6143", AudioCodec.FLAC, PacketKind.SETUP),
        ("91 2e6d7033", AudioCodec.MP3, PacketKind.FRAME),
        ("91 61632d33", AudioCodec.AC3, PacketKind.FRAME),
        ("92 65632d33", AudioCodec.EAC3, PacketKind.END_OF_SEQUENCE),
        ("94 4f707573", AudioCodec.OPUS, PacketKind.MULTICHANNEL_CONFIG),
    ],
)
def test_plain_enhanced_messages(payload: str, codec: AudioCodec, kind: PacketKind) -> None:
    tag = read_audio_tag(bytes.fromhex(payload + "aa"))
    assert tag == AudioTag(kind, (packet(codec, kind, (5, 6)),))
    assert tag.codec is codec


def test_one_track_names_its_id_after_the_fourcc() -> None:
    frame = packet(AudioCodec.OPUS, PacketKind.FRAME, (7, 8), track_id=2)
    assert read_audio_tag(bytes.fromhex("95 01 4f707573 02 fc")) == AudioTag(PacketKind.FRAME, (frame,))


def test_many_tracks_of_one_codec() -> None:
    tag = read_audio_tag(bytes.fromhex("95 10 6d703461 00 000002 1190 01 000002 1210"))
    assert tag.tracks == (
        packet(AudioCodec.AAC, PacketKind.SETUP, (10, 12), track_id=0),
        packet(AudioCodec.AAC, PacketKind.SETUP, (16, 18), track_id=1),
    )


def test_many_tracks_of_many_codecs() -> None:
    tag = read_audio_tag(bytes.fromhex("95 21 6d703461 00 000001 aa 4f707573 03 000000"))
    assert tag.tracks == (
        packet(AudioCodec.AAC, PacketKind.FRAME, (10, 11), track_id=0),
        packet(AudioCodec.OPUS, PacketKind.FRAME, (19, 19), track_id=3),
    )


def test_a_nanosecond_offset_comes_before_the_packet() -> None:
    tag = read_audio_tag(bytes.fromhex("97 02 07a120 01 4f707573 fc"))
    assert tag.nanosecond_offset == 500_000
    assert tag.tracks == (packet(AudioCodec.OPUS, PacketKind.FRAME, (10, 11)),)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("c0", "audio tag: unknown sound format 12"),
        ("d0", "audio tag: unknown sound format 13"),
        ("af", "audio tag: AAC packet type needs 1 bytes at offset 1, payload has 1"),
        ("af02", "audio tag: unknown AAC packet type 2"),
        ("90", "audio tag: FourCC needs 4 bytes at offset 1, payload has 1"),
        ("906f707573", "audio tag: unknown FourCC 6f707573 at offset 1"),
        ("934f707573", "audio tag: unknown packet type 3"),
        ("964f707573", "audio tag: unknown packet type 6"),
        ("9505 4f707573 00", "audio tag: unknown packet type 5"),
        ("9540", "audio tag: unknown multitrack type 4"),
    ],
)
def test_what_cannot_be_read_says_why(payload: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_audio_tag(bytes.fromhex(payload))
    assert str(caught.value) == message
    assert audio_codec_of(bytes.fromhex(payload)) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("0006", MultichannelConfig(ChannelOrder.UNSPECIFIED, 6)),
        # Front left and right, centre, LFE, back left and right.
        ("01060000003f", MultichannelConfig(ChannelOrder.NATIVE, 6, speaker_mask=0x3F)),
        ("0203000102", MultichannelConfig(ChannelOrder.CUSTOM, 3, speakers=(0, 1, 2))),
        ("0202feff", MultichannelConfig(ChannelOrder.CUSTOM, 2, speakers=(0xFE, 0xFF))),
    ],
)
def test_multichannel_config_has_three_orders(body: str, expected: MultichannelConfig) -> None:
    assert read_multichannel_config(bytes.fromhex(body)) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("00", "audio tag: multichannel config needs 2 bytes at offset 0, payload has 1"),
        ("0306", "audio tag: unknown channel order 3 of 6 channels"),
        ("010600003f", "audio tag: speaker mask needs 4 bytes at offset 2, payload has 5"),
        ("02030001", "audio tag: speaker map needs 3 bytes at offset 2, payload has 4"),
    ],
)
def test_a_damaged_multichannel_config_says_why(body: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_multichannel_config(bytes.fromhex(body))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("payload", "codec"),
    [
        (golden.MP3_FRAME, AudioCodec.MP3),
        (golden.NELLYMOSER_FRAME, AudioCodec.NELLYMOSER),
        (golden.PCM_FRAME, AudioCodec.PCM_LE),
        (golden.SPEEX_FRAME, AudioCodec.SPEEX),
        (golden.MU_LAW_FRAME, AudioCodec.G711_MU_LAW),
        (golden.AAC_LC_48K_STEREO, AudioCodec.AAC),
    ],
)
def test_the_codec_of_real_messages(payload: bytes, codec: AudioCodec) -> None:
    assert audio_codec_of(payload) is codec


@given(st.sampled_from([b"", b"\xaf", b"\x91", b"\x95", b"\x95\x11", b"\x95\x20", b"\x97\x00"]), st.binary(max_size=40))
@settings(max_examples=300)
def test_any_bytes_give_a_tag_or_malformed_media(header: bytes, rest: bytes) -> None:
    payload = header + rest
    try:
        tag = read_audio_tag(payload)
    except MalformedMedia:
        return
    for track in tag.tracks:
        assert 1 <= track.body_start <= track.body_end <= len(payload)


@given(st.binary(max_size=12))
@settings(max_examples=100)
def test_any_bytes_as_multichannel_config_give_it_or_malformed_media(body: bytes) -> None:
    try:
        config = read_multichannel_config(body)
    except MalformedMedia:
        return
    assert config.channels == body[1]
