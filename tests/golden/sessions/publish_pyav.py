"""Publish a second and a half of a test pattern with PyAV: `publish_pyav.py URL ENCODER...`.

Each ENCODER becomes one track of the publication, in the order given: `libx264 libopus` is a picture and a sound,
`libx264 libx264 aac libopus` is multitrack (Enhanced RTMP v2). PyAV's wheel carries an FFmpeg that is newer than any
that Debian has.
"""

import sys
from typing import Any

import av

PICTURE = "testsrc=size=128x72:rate=10:duration=1.5,format=yuv420p"
TONE = "sine=frequency=440:sample_rate=48000:duration=1.5"


def add_track(output: Any, encoder: str) -> tuple[Any, str]:
    """Add one track to the output; give it back with the pattern that feeds it."""
    if av.Codec(encoder, "w").type == "audio":
        track = output.add_stream(encoder, rate=48_000, layout="mono")
        track.bit_rate = 24_000
        return track, TONE
    track = output.add_stream(encoder, rate=10, options={"preset": "ultrafast", "tune": "zerolatency"})
    track.width, track.height, track.pix_fmt = 128, 72, "yuv420p"
    track.bit_rate = 60_000
    track.codec_context.gop_size = 5
    return track, PICTURE


def read_packets(track: Any, pattern: str) -> list[Any]:
    """Encode the whole pattern."""
    packets: list[Any] = []
    with av.open(pattern, format="lavfi") as source:
        for frame in source.decode(0):
            if pattern == PICTURE:
                # The pattern marks every picture as a keyframe, and the encoder would obey.
                frame.pict_type = 0
            packets += track.encode(frame)
    packets += track.encode(None)
    return packets


if __name__ == "__main__":
    with av.open(sys.argv[1], "w", format="flv") as publication:
        tracks = [add_track(publication, encoder) for encoder in sys.argv[2:]]
        all_packets = [packet for track, pattern in tracks for packet in read_packets(track, pattern)]
        for packet in sorted(all_packets, key=lambda each: each.dts * each.time_base):
            publication.mux(packet)
