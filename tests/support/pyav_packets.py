"""What PyAV reads from a file or URL, as a list: `python -m tests.support.pyav_packets SOURCE LIST [SECONDS]`.

One line for each track (its index, kind, codec and the MD5 of its set-up, after a #), then one for each packet: track,
dts, pts, duration, size, MD5.
"""

import hashlib
import sys
from pathlib import Path

import av


def list_packets(source: str, list_path: Path, seconds: float | None) -> None:
    with av.open(source) as container, list_path.open("w", encoding="utf-8", buffering=1) as listed:
        for stream in container.streams:
            set_up = hashlib.md5(stream.codec_context.extradata or b"").hexdigest()
            listed.write(f"# {stream.index}, {stream.type}, {stream.codec_context.name}, {set_up}\n")
        first_ms: int | None = None
        for packet in container.demux():
            # The end of each track is told by an empty packet.
            if packet.dts is None:
                continue
            first_ms = packet.dts if first_ms is None else first_ms
            digest = hashlib.md5(bytes(packet)).hexdigest()
            row = (packet.stream_index, packet.dts, packet.pts, packet.duration, packet.size, digest)
            listed.write(", ".join(map(str, row)) + "\n")
            if seconds is not None and packet.dts - first_ms > 1000 * seconds:
                return


if __name__ == "__main__":
    list_packets(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else None)
