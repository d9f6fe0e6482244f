"""The test pattern: FFmpeg's moving test picture with a running clock in it, and a tone with a beep each second.

Owns the encoders and the settings by which they give each picture at once: no reordering, no look-ahead. Needs no
fonts, as the picture draws its own digits.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

import av
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.filter import Graph
from av.video.frame import PictureType
from av.video.stream import VideoStream

from penstock.media.frame import Frame
from penstock.tools.files import FlvMuxer, unreadable

_ENCODERS: Final = {
    "h264": ("libx264", {"preset": "ultrafast", "tune": "zerolatency"}),
    "hevc": ("libx265", {"preset": "ultrafast", "tune": "zerolatency", "x265-params": "log-level=error"}),
    "av1": ("libsvtav1", {"preset": "10", "svtav1-params": "pred-struct=1:rc=2:rtc=1"}),
    "vp9": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}),
}

_SAMPLE_RATE_HZ: Final = 48000
_SAMPLES_PER_FRAME: Final = 1024
_AUDIO_BPS: Final = 96_000
_KEY_FRAME_S: Final = 2
# Of SVT-AV1, which else prints its settings: 1 is for errors alone.
_SVT_LOG_LEVEL: Final = "1"


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the picture is like. `seconds` None is without an end."""

    codec: str = "h264"
    width_px: int = 640
    height_px: int = 360
    frames_per_second: int = 30
    video_bps: int = 800_000
    seconds: float | None = None


def pattern_frames(pattern: Pattern) -> Iterator[Frame]:
    """The pattern as frames, made as fast as they are asked for."""
    try:
        yield from _encoded(pattern)
    except av.FFmpegError as fault:
        raise unreadable(f"{pattern.codec} {pattern.width_px}x{pattern.height_px}", fault) from fault


@contextmanager
def kept_scheduling() -> Iterator[None]:
    """The thread is scheduled after the block as it was before.

    SVT-AV1 4.1 gives the thread that opens it, if that is root's, a priority above everything else on the machine
    (SCHED_FIFO, 99), which threads and processes that are started later inherit.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


def _encoded(pattern: Pattern) -> Iterator[Frame]:
    os.environ.setdefault("SVT_LOG", _SVT_LOG_LEVEL)
    muxer = FlvMuxer()
    video, audio = _add_video(muxer, pattern), _add_audio(muxer)
    pictures, sounds = _pictures(pattern), _sounds()
    rate = pattern.frames_per_second
    picture_count = 0
    sample_count = 0
    while pattern.seconds is None or picture_count < pattern.seconds * rate:
        picture = pictures.vpull()
        # The source calls each picture a key picture, and encoders would obey.
        picture.pict_type = PictureType.NONE
        yield from muxer.mux(video.encode(picture))
        picture_count += 1
        while sample_count * rate < picture_count * _SAMPLE_RATE_HZ:
            yield from muxer.mux(audio.encode(cast(AudioFrame, sounds.pull())))
            sample_count += _SAMPLES_PER_FRAME
    yield from muxer.mux([*video.encode(None), *audio.encode(None)])
    yield from muxer.finish()


def _add_video(muxer: FlvMuxer, pattern: Pattern) -> VideoStream:
    encoder, options = _ENCODERS[pattern.codec]
    stream = cast(VideoStream, muxer.container.add_stream(encoder, rate=pattern.frames_per_second, options=options))
    stream.width, stream.height, stream.pix_fmt = pattern.width_px, pattern.height_px, "yuv420p"
    stream.bit_rate = pattern.video_bps
    context = stream.codec_context
    context.time_base = Fraction(1, pattern.frames_per_second)
    context.gop_size = _KEY_FRAME_S * pattern.frames_per_second
    context.max_b_frames = 0
    with kept_scheduling():
        context.open()
    return stream


def _add_audio(muxer: FlvMuxer) -> AudioStream:
    stream = muxer.container.add_stream("aac", rate=_SAMPLE_RATE_HZ)
    stream.bit_rate, stream.layout = _AUDIO_BPS, "stereo"
    return stream


def _pictures(pattern: Pattern) -> Graph:
    size = f"{pattern.width_px}x{pattern.height_px}"
    source = f"size={size}:rate={pattern.frames_per_second}:decimals=3"
    return _graph(("testsrc", source), ("format", "yuv420p"), ("buffersink", None))


def _sounds() -> Graph:
    tone = f"frequency=440:beep_factor=4:sample_rate={_SAMPLE_RATE_HZ}:samples_per_frame={_SAMPLES_PER_FRAME}"
    return _graph(("sine", tone), ("aformat", "sample_fmts=fltp:channel_layouts=stereo"), ("abuffersink", None))


def _graph(*filters: tuple[str, str | None]) -> Graph:
    graph = Graph()
    graph.link_nodes(*(graph.add(name, arguments) for name, arguments in filters)).configure()
    return graph
