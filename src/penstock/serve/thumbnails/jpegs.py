"""A key frame to JPEGs, by FFmpeg's libraries (PyAV).

Owns which decoders are asked, what counts as a picture, and the sizes and quality of the JPEGs. Is imported by the
process that decodes and by nobody else: PyAV comes with the extra `web`.
"""

from fractions import Fraction
from typing import Final, cast

import av
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from penstock.control.thumbnails import WIDTHS

DECODERS: Final = {"AVC": "h264", "HEVC": "hevc", "AV1": "libdav1d", "VP9": "vp9", "VP8": "vp8"}
_WITHOUT_SETUP: Final = ("VP9", "VP8")
"""Their records say nothing that a decoder wants to know."""
_MAX_PIXELS: Final = 8192 * 4352
_MAX_TALL: Final = 4
"""Times as high as wide: a picture beyond that is cut off."""
_QUALITY: Final = 4
"""FFmpeg's scale, from 2 (best) to 31."""


class NoPicture(Exception):
    """The frame is none, or not a whole one."""


def prepare() -> None:
    """Load what is loaded on demand, while files can still be opened."""
    av.logging.set_level(None)
    frame = VideoFrame(320, 240, "yuv420p10le")
    _encode(frame, WIDTHS[0])


def jpegs_of(codec: str, setup: bytes, key_frame: bytes) -> dict[int, bytes]:
    """JPEGs of all widths of a key frame. Raises whatever is wrong with it."""
    frame = _decode(codec, setup, key_frame)
    # Of a picture that is smaller than some of them there is one.
    made: dict[int, bytes] = {}
    for width in WIDTHS:
        width_px = min(width, frame.width) // 2 * 2 or 2
        if width_px not in made:
            made[width_px] = _encode(frame, width_px)
    return {width: made[min(width, max(made))] for width in WIDTHS}


def _decode(codec: str, setup: bytes, key_frame: bytes) -> VideoFrame:
    name = DECODERS.get(codec)
    if name is None:
        raise NoPicture(f"{codec} is not decoded here")
    decoder = cast("VideoCodecContext", VideoCodecContext.create(name, "r"))
    decoder.thread_count = 1
    decoder.options = {"max_pixels": str(_MAX_PIXELS)}
    if setup and codec not in _WITHOUT_SETUP:
        decoder.extradata = setup
    frames = [*decoder.decode(av.Packet(key_frame)), *decoder.decode(None)]
    if not frames:
        raise NoPicture("the key frame holds no picture")
    if frames[0].is_corrupt:
        # A decoder fills what is missing with grey.
        raise NoPicture("the key frame is damaged")
    return frames[0]


def _encode(frame: VideoFrame, width_px: int) -> bytes:
    height_px = min(round(frame.height * width_px / frame.width), _MAX_TALL * width_px) // 2 * 2 or 2
    encoder = VideoCodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width_px, height_px, "yuvj420p"
    encoder.framerate = Fraction(1)
    encoder.thread_count = 1
    encoder.qmin = encoder.qmax = _QUALITY
    scaled = frame.reformat(width_px, height_px, "yuvj420p", interpolation="AREA")
    scaled.pts = None
    return b"".join(bytes(packet) for packet in (*encoder.encode(scaled), *encoder.encode(None)))
