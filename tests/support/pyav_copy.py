"""PyAV as a publisher: `python -m tests.support.pyav_copy SOURCE URL` sends every track of a file, in real time.

PyAV's wheel carries an FFmpeg whose FLV writer knows all codecs of Enhanced RTMP, and more than one track of a kind.
"""

import sys
import time

import av


def copy_in_real_time(source: str, url: str) -> None:
    with av.open(source) as recording, av.open(url, "w", format="flv") as publication:
        tracks = {track.index: publication.add_stream_from_template(track) for track in recording.streams}
        # Connects, which must not count as time of the stream.
        publication.start_encoding()
        started_at = time.monotonic()
        for packet in recording.demux():
            # The end of each track is told by an empty packet.
            if packet.dts is None or packet.time_base is None:
                continue
            due_at = started_at + float(packet.dts * packet.time_base)
            time.sleep(max(due_at - time.monotonic(), 0))
            packet.stream = tracks[packet.stream_index]
            publication.mux(packet)


if __name__ == "__main__":
    copy_in_real_time(sys.argv[1], sys.argv[2])
