"""Audio decoder configuration records, as real encoders write them and as they are when damaged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.codecs import AudioCodec
from penstock.media.describe import read_audio_setup
from penstock.media.setup_record import AudioSetup
from tests.media import setup_messages as golden
from tests.media.bit_text import bytes_of


def aac(profile: str, sample_rate_hz: int, channels: int | None) -> AudioSetup:
    return AudioSetup(AudioCodec.AAC, profile=profile, sample_rate_hz=sample_rate_hz, channels=channels)


AS_FFPROBE_SAYS: list[tuple[bytes, AudioSetup]] = [
    (golden.AAC_LC_48K_STEREO[2:], aac("AAC-LC", 48000, 2)),
    (golden.AAC_LC_44K1_MONO[2:], aac("AAC-LC", 44100, 1)),
    (golden.AAC_LC_16K_MONO[2:], aac("AAC-LC", 16000, 1)),
    (golden.AAC_LC_48K_5_1[2:], aac("AAC-LC", 48000, 6)),
    (golden.AAC_LC_48K_7_1[2:], aac("AAC-LC", 48000, 8)),
    (golden.AAC_LC_48K_QUAD[2:], aac("AAC-LC", 48000, 4)),
    (golden.OPUS_HEAD_STEREO, AudioSetup(AudioCodec.OPUS, sample_rate_hz=48000, channels=2)),
    (golden.OPUS_HEAD_5_1, AudioSetup(AudioCodec.OPUS, sample_rate_hz=48000, channels=6)),
    (golden.FLAC_44K1_STEREO, AudioSetup(AudioCodec.FLAC, sample_rate_hz=44100, channels=2, bit_depth=16)),
    (golden.FLAC_96K_5_1, AudioSetup(AudioCodec.FLAC, sample_rate_hz=96000, channels=6, bit_depth=24)),
]


@pytest.mark.parametrize(("record", "expected"), AS_FFPROBE_SAYS)
def test_a_record_tells_what_ffprobe_says(record: bytes, expected: AudioSetup) -> None:
    assert read_audio_setup(expected.codec, record) == expected


@pytest.mark.parametrize(("record", "expected"), AS_FFPROBE_SAYS)
def test_a_record_cut_anywhere_gives_the_same_facts_or_malformed_media(record: bytes, expected: AudioSetup) -> None:
    for size in range(1, len(record)):
        try:
            setup = read_audio_setup(expected.codec, record[:size])
        except MalformedMedia:
            continue
        assert setup == expected


# Written from the syntax table of ISO 14496-3; ffprobe 5.1.9 agrees on rate and channels.
@pytest.mark.parametrize(
    ("record", "expected"),
    [
        # Object type 5, core rate 22050, two channels, rate 44100, core object type 2.
        ("2b920800", aac("HE-AAC", 44100, 2)),
        # Object type 29: one channel in the core, two out of parametric stereo.
        ("eb8a0800", aac("HE-AACv2", 44100, 2)),
        # AAC-LC at 24000 to old decoders; a sync extension of 2B7 and object type 5 gives 48000.
        ("131056e598", aac("HE-AAC", 48000, 2)),
        # The same with a second extension, 548, for parametric stereo.
        ("130856e59d4880", aac("HE-AACv2", 48000, 2)),
    ],
)
def test_high_efficiency_aac_is_told_by_both_forms(record: str, expected: AudioSetup) -> None:
    assert read_audio_setup(AudioCodec.AAC, bytes.fromhex(record)) == expected


# One front pair, one centre, a back pair, a subwoofer, two mixdowns of three, four bits of alignment, a comment "x".
PROGRAM_CONFIG = (
    "0000 01 0011 0010 0000 0001 01 000 0000 0 1 0000 1 000 0 0000 1 0001 1 0010 0000 0000 00000001 01111000"
)
SBR_TO_48_KHZ = f"{0x2B7:011b} 00101 1 0011"


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        # An explicit rate.
        ("00010" + "1111" + f"{44056:024b}" + "0010" + "000", aac("AAC-LC", 44056, 2)),
        # An escaped object type, whose own configuration is not read.
        ("11111" + f"{39 - 32:06b}" + "0011" + "0010", aac("AAC-ELD", 48000, 2)),
        ("11111" + f"{60 - 32:06b}" + "0011" + "0000", aac("AAC object type 60", 48000, None)),
        ("00001" + "0000" + "1011" + "000", aac("AAC Main", 96000, 7)),
        # A core coder delay.
        ("00010" + "0011" + "0010" + "01" + "0" * 14 + "0", aac("AAC-LC", 48000, 2)),
        # Error resilient objects with an extension.
        ("10001" + "0011" + "0010" + "001" + "000" + "0", aac("ER AAC-LC", 48000, 2)),
        ("10110" + "0011" + "0010" + "001" + "0" * 16 + "0", aac("AAC object type 22", 48000, 2)),
        ("00110" + "0011" + "0010" + "000" + "111", aac("AAC object type 6", 48000, 2)),
        ("00010 0011 0000 000" + PROGRAM_CONFIG, aac("AAC-LC", 48000, 6)),
        ("00010 0110 0000 000" + PROGRAM_CONFIG + SBR_TO_48_KHZ, aac("HE-AAC", 48000, 6)),
        # A sync extension for something else than SBR, and one cut off before its flag.
        ("00010" + "0011" + "0010" + "000" + f"{0x2B7:011b}" + "10110" + "0" * 8, aac("AAC-LC", 48000, 2)),
        ("00010" + "0011" + "0010" + "000" + f"{0x2B7:011b}" + "00101", aac("AAC-LC", 48000, 2)),
    ],
)
def test_an_audio_specific_config_is_read_by_its_syntax(bits: str, expected: AudioSetup) -> None:
    assert read_audio_setup(AudioCodec.AAC, bytes_of(bits)) == expected


@pytest.mark.parametrize(
    ("codec", "record", "message"),
    [
        (AudioCodec.AAC, "", "AAC set-up: 5 bits wanted at bit 0 of 0"),
        (AudioCodec.AAC, "0190", "AAC set-up: object type 0"),
        (AudioCodec.AAC, "1690", "AAC set-up: sample rate index 13"),
        (AudioCodec.AAC, "178000000010", "AAC set-up: sample rate 0"),
        (AudioCodec.AAC, "11c0", "AAC set-up: channel configuration 8"),
        (AudioCodec.OPUS, "4f70757348656164", "Opus set-up: no ID header in 8 bytes"),
        (AudioCodec.OPUS, "4f707573486561641002380180bb0000000000", "Opus set-up: version 16 with 2 channels"),
        (AudioCodec.OPUS, "4f707573486561640100380180bb0000000000", "Opus set-up: version 1 with 0 channels"),
        (AudioCodec.FLAC, "00000022", "FLAC set-up: no marker in 4 bytes"),
        (AudioCodec.FLAC, "664c614304000022", "FLAC set-up: metadata block of type 4 and 34 bytes"),
        (AudioCodec.FLAC, "664c614300000022" + "00" * 34, "FLAC set-up: sample rate 0"),
    ],
)
def test_a_damaged_record_says_what_is_wrong(codec: AudioCodec, record: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_audio_setup(codec, bytes.fromhex(record))
    assert str(caught.value) == message


def test_opus_may_leave_its_header_out() -> None:
    assert read_audio_setup(AudioCodec.OPUS, b"") == AudioSetup(AudioCodec.OPUS, sample_rate_hz=48000)


def test_codecs_without_a_record_tell_their_name() -> None:
    assert read_audio_setup(AudioCodec.AC3, b"\xff") == AudioSetup(AudioCodec.AC3)


@given(st.sampled_from(AudioCodec), st.binary(max_size=60))
@settings(max_examples=300)
def test_any_bytes_give_facts_or_malformed_media(codec: AudioCodec, record: bytes) -> None:
    try:
        setup = read_audio_setup(codec, record)
    except MalformedMedia:
        return
    assert setup.codec is codec
