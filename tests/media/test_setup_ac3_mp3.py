"""AC-3, E-AC-3 and MP3, whose set-up is in their frames: heads of FFmpeg's encoders, and damage."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.codecs import AudioCodec
from penstock.media.setup_ac3 import Ac3Setup, Eac3Setup, Eac3Substream, read_ac3_setup, read_eac3_setup
from penstock.media.setup_mp3 import read_mp3_setup
from penstock.media.setup_record import AudioSetup

# FFmpeg 8.1.2: -c:a ac3 and -c:a eac3 at 448 kbit/s, 48 kHz, 5.1; the first bytes, and as long as it was.
AC3_FRAME = bytes.fromhex("0b7774241e40ebf8403e")
EAC3_LONG = bytes.fromhex("0b77037f3f87c00020b4").ljust(1792, b"\0")


def test_ac3_tells_its_rate_and_channels() -> None:
    setup = read_ac3_setup(AC3_FRAME)
    assert setup == Ac3Setup(
        rate_code=0, bitstream_id=8, bitstream_mode=0, channel_mode=7, has_lfe=True, bit_rate_code=15
    )
    assert (setup.sample_rate_hz, setup.channels) == (48000, 6)


def test_ac3_in_stereo_has_a_surround_mode_before_its_lfe_flag() -> None:
    # acmod 2, dsurmod 3, lfeon 0.
    setup = read_ac3_setup(bytes.fromhex("0b770000 54 40 58"))
    assert (setup.sample_rate_hz, setup.channels, setup.bit_rate_code) == (44100, 2, 10)


def test_eac3_tells_its_substream_and_data_rate() -> None:
    setup = read_eac3_setup(EAC3_LONG)
    substream = Eac3Substream(
        rate_code=0, bitstream_id=16, channel_mode=7, has_lfe=True, dependent_substreams=0, channel_locations=0
    )
    assert setup == Eac3Setup((substream,), data_rate_kbps=448, sample_rate_hz=48000)
    assert setup.channels == 6


def test_a_dependent_substream_adds_its_channels_to_its_parent() -> None:
    # strmtyp 1, frmsiz 63, 48 kHz, 6 blocks, acmod 2, lfeon 0, bsid 16, dialnorm 31, no compr, chanmap with Lrs/Rrs.
    bits = "0000101101110111" + "01" + "000" + f"{63:011b}" + "00" + "11" + "010" + "0" + "10000" + "11111" + "0" + "1"
    bits += "0000001000000000"
    dependent = int(bits.ljust(128, "0"), 2).to_bytes(16, "big").ljust(128, b"\0")
    setup = read_eac3_setup(EAC3_LONG + dependent)
    assert (setup.substreams[0].dependent_substreams, setup.substreams[0].channel_locations) == (1, 0b10)
    assert setup.data_rate_kbps == 448 + 32


def test_a_second_access_unit_in_the_same_message_is_not_another_substream() -> None:
    assert read_eac3_setup(EAC3_LONG + EAC3_LONG) == read_eac3_setup(EAC3_LONG)


def test_eac3_at_half_rate_has_six_blocks() -> None:
    # fscod 3, fscod2 0: 24 kHz.
    setup = read_eac3_setup(bytes.fromhex("0b77 037f c4 86 00").ljust(1792, b"\0"))
    assert (setup.sample_rate_hz, setup.data_rate_kbps) == (24000, 224)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ("", "AC-3 frame: 16 bits wanted at bit 0 of 0"),
        ("0b78", "AC-3 frame: sync word 0x0b78"),
        ("0b770000c040e1", "AC-3 frame: rate 3, size 0, bitstream id 8"),
        ("0b7700001e", "AC-3 frame: 5 bits wanted at bit 40 of 40"),
        ("0b77000026 40e1", "AC-3 frame: rate 0, size 38, bitstream id 8"),
    ],
)
def test_damaged_ac3_is_malformed(frame: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_ac3_setup(bytes.fromhex(frame))
    assert str(caught.value) == message


def test_eac3_of_no_rate_is_malformed() -> None:
    with pytest.raises(MalformedMedia, match="no rate at offset 0"):
        read_eac3_setup(bytes.fromhex("0b77037ff48600"))


@pytest.mark.parametrize(
    ("head", "rate_hz", "channels"),
    [("fffb9464", 48000, 2), ("fffb90c4", 44100, 1), ("fff384c4", 24000, 1), ("ffe388c4", 8000, 1)],
)
def test_mp3_tells_its_rate_and_channels(head: str, rate_hz: int, channels: int) -> None:
    assert read_mp3_setup(bytes.fromhex(head)) == AudioSetup(AudioCodec.MP3, sample_rate_hz=rate_hz, channels=channels)


@pytest.mark.parametrize("head", ["fffd9464", "ffeb9464", "fffb9c64", "7ffb9464"])
def test_what_is_no_mp3_is_malformed(head: str) -> None:
    with pytest.raises(MalformedMedia, match="MP3 frame: head 0x" + head):
        read_mp3_setup(bytes.fromhex(head))


@given(st.binary(max_size=64), st.sampled_from([read_ac3_setup, read_eac3_setup, read_mp3_setup]))
def test_random_bytes_behind_a_sync_word_are_read_or_malformed(tail: bytes, read: object) -> None:
    assert callable(read)
    with contextlib.suppress(MalformedMedia):
        read(b"\x0b\x77" + tail)
