"""MP3 set-up: there is none in RTMP, so it is read from the head of a frame (ISO 11172-3 and 13818-3, section 2.4.2.3).

The tag of a message cannot say 48 kHz; the frame can. Damage is `MalformedMedia`.
"""

from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.codecs import AudioCodec
from penstock.media.setup_record import AudioSetup

_LAYER: Final = "MP3 frame"

_RATES_HZ: Final = (44100, 48000, 32000)
# By the two bits of the version: MPEG 2.5, reserved, MPEG-2, MPEG-1.
_DIVISORS: Final = (4, None, 2, 1)
_LAYER_3: Final = 1
_MONO: Final = 3


def read_mp3_setup(frame: bytes) -> AudioSetup:
    """Read the head of the first frame."""
    if len(frame) < 4:
        raise MalformedMedia(_LAYER, f"{len(frame)} bytes")
    head = int.from_bytes(frame[:4], "big")
    divisor, layer, rate = _DIVISORS[head >> 19 & 3], head >> 17 & 3, head >> 10 & 3
    if head >> 21 != 0x7FF or divisor is None or layer != _LAYER_3 or rate >= len(_RATES_HZ):
        raise MalformedMedia(_LAYER, f"head {head:#010x}")
    channels = 1 if head >> 6 & 3 == _MONO else 2
    return AudioSetup(AudioCodec.MP3, sample_rate_hz=_RATES_HZ[rate] // divisor, channels=channels)
