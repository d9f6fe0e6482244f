"""Key frames of real encoders as RTMP carries them, and what ffprobe says of a JPEG."""

import subprocess
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NamedTuple

from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from penstock.media.packets import PacketKind
from penstock.media.tags import read_video_tag
from tests.support.samples import VIDEO, golden_samples

SESSIONS = {
    "AVC": "ffmpeg_publish",
    "HEVC": "ffmpeg7_publish_hevc",
    "AV1": "ffmpeg7_publish_av1",
    "VP9": "ffmpeg7_publish_vp9",
}


class Coded(NamedTuple):
    codec: str
    setup: bytes
    key_frame: bytes


@cache
def recorded(codec: str) -> Coded:
    """The first key frame that FFmpeg published over RTMP, 128 by 72 pixels."""
    setup = b""
    for sample in golden_samples(SESSIONS[codec]):
        if sample.type_id != VIDEO:
            continue
        tag = read_video_tag(sample.payload)
        if not tag.tracks:
            continue
        body = sample.payload[tag.tracks[0].body_start : tag.tracks[0].body_end]
        if tag.packet_kind is PacketKind.SETUP:
            setup = body
        elif tag.is_key:
            return Coded(codec, setup, body)
    raise AssertionError("no key frame")


@cache
def encoded(width: int, height: int) -> Coded:
    """One key frame of H.264 of that size."""
    encoder = VideoCodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
    encoder.time_base = encoder.framerate = Fraction(1)
    encoder.options = {"preset": "ultrafast"}
    frame = VideoFrame(width, height, "yuv420p")
    data = b"".join(bytes(packet) for packet in (*encoder.encode(frame), *encoder.encode(None)))
    units = [unit for unit in data.replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1") if unit]
    sps, pps = (next(unit for unit in units if unit[0] & 31 == kind) for kind in (7, 8))
    record = b"\x01" + sps[1:4] + b"\xff\xe1" + len(sps).to_bytes(2, "big") + sps
    record += b"\x01" + len(pps).to_bytes(2, "big") + pps
    picture = b"".join(len(unit).to_bytes(4, "big") + unit for unit in units if unit[0] & 31 == 5)
    return Coded("AVC", record, picture)


def probed(jpeg: bytes, folder: Path) -> str:
    """Format and size, by a decoder that is not PyAV's: "mjpeg,640,360"."""
    path = folder / "picture.jpg"
    path.write_bytes(jpeg)
    command = ["ffprobe", "-v", "error", "-show_entries", "stream=codec_name,width,height", "-of", "csv=p=0"]
    run = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=30, check=True)
    assert run.stderr == ""
    return run.stdout.strip()
