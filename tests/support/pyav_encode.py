"""PyAV as an encoder: `python -m tests.support.pyav_encode VIDEO AUDIO FLV` writes two seconds of a codec pair.

VIDEO and AUDIO are encoders of FFmpeg, "none" for none. PyAV's wheel carries an FFmpeg whose FLV writer knows all
codecs of Enhanced RTMP. H.264 and H.265 have B-frames, so that composition times differ. A key frame comes each half
second.
"""

import sys
from fractions import Fraction

import av
import numpy as np
from av.audio.stream import AudioStream
from av.video.stream import VideoStream

SECONDS = 2
FRAMES_PER_SECOND = 20
SIZE_PX = (160, 90)
RATE_HZ = 48000
LAYOUTS = {"eac3": "5.1", "ac3": "5.1"}
OPTIONS = {
    "libx264": {"preset": "ultrafast", "bf": "2", "x264-params": "keyint=10:scenecut=0:b-adapt=0"},
    "libx265": {"preset": "ultrafast", "x265-params": "keyint=10:bframes=2:b-adapt=0:info=0:log-level=none"},
    "libsvtav1": {"preset": "12", "g": "10", "svtav1-params": "pred-struct=1"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "g": "10"},
}


def encode(video_encoder: str, audio_encoder: str, path: str) -> None:
    with av.open(path, "w", format="flv") as container:
        video = add_video(container, video_encoder) if video_encoder != "none" else None
        audio = add_audio(container, audio_encoder) if audio_encoder != "none" else None
        for tick in range(SECONDS * FRAMES_PER_SECOND):
            if video is not None:
                container.mux(video.encode(picture(tick)))
            if audio is not None:
                container.mux(audio.encode(tone(tick, audio.codec_context.layout.name)))
        for stream in (video, audio):
            if stream is not None:
                container.mux(stream.encode(None))


def add_video(container: av.container.OutputContainer, encoder: str) -> VideoStream:
    stream = container.add_stream(encoder, rate=FRAMES_PER_SECOND, options=OPTIONS.get(encoder, {}))
    assert isinstance(stream, VideoStream)
    stream.width, stream.height = SIZE_PX
    stream.pix_fmt = "yuv420p"
    return stream


def add_audio(container: av.container.OutputContainer, encoder: str) -> AudioStream:
    stream = container.add_stream(encoder, rate=RATE_HZ, layout=LAYOUTS.get(encoder, "stereo"))
    assert isinstance(stream, AudioStream)
    return stream


def picture(tick: int) -> av.VideoFrame:
    width, height = SIZE_PX
    column = (np.arange(width) + 4 * tick) % 256
    frame = av.VideoFrame.from_ndarray(np.stack([np.tile(column, (height, 1))] * 3, -1).astype(np.uint8))
    frame.pts, frame.time_base = tick, Fraction(1, FRAMES_PER_SECOND)
    return frame


def tone(tick: int, layout: str) -> av.AudioFrame:
    count = RATE_HZ // FRAMES_PER_SECOND
    wave = np.sin(2 * np.pi * 440 * (np.arange(count) + tick * count) / RATE_HZ).astype(np.float32) / 4
    channels = 6 if layout == "5.1" else 2
    frame = av.AudioFrame.from_ndarray(np.tile(wave, (channels, 1)), format="fltp", layout=layout)
    frame.sample_rate, frame.pts, frame.time_base = RATE_HZ, tick * count, Fraction(1, RATE_HZ)
    return frame


if __name__ == "__main__":
    encode(*sys.argv[1:4])
