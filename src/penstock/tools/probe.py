"""penstock probe: what is in a stream that is watched for a few seconds, or in a file that is read through.

FLV files are read by our own reader; all other containers through PyAV, by their packets, so that codecs which cannot
travel over RTMP are named too. Nothing is decoded.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

import av
from av.audio.stream import AudioStream
from av.video.stream import VideoStream
from rich.console import Console

from penstock.media.frame import FrameKind
from penstock.tools.files import file_frames, is_flv, limited, timed_packets, unreadable
from penstock.tools.play import Watch
from penstock.tools.report import Json, stream_json, write_json, write_stream_tables
from penstock.tools.running import until_interrupted
from penstock.tools.statistics import StreamStatistics, TrackStatistics

_STREAM_SECONDS: Final = 5.0


async def main(arguments: argparse.Namespace) -> int:
    """Look, and tell. A source without a single track is a failure."""
    if arguments.source.startswith(("rtmp://", "rtmps://")):
        watch = Watch(arguments.source)
        await until_interrupted(watch.run(lambda _: None, limit_s=arguments.seconds or _STREAM_SECONDS))
        report = watch.report()
    else:
        report = probe_file(Path(arguments.source), arguments.seconds)
    if arguments.json:
        write_json(report, sys.stdout)
    else:
        write_stream_tables(report, Console())
    return 0 if report["tracks"] else 1


def probe_file(path: Path, limit_s: float | None) -> Json:
    """What is in a file."""
    statistics = StreamStatistics()
    if is_flv(path):
        frames = file_frames(path)
        for frame in frames if limit_s is None else limited(frames, limit_s):
            statistics.add(frame)
        return stream_json(str(path), "flv", statistics)
    try:
        return stream_json(str(path), _add_container(path, limit_s, statistics), statistics)
    except av.FFmpegError as fault:
        raise unreadable(str(path), fault) from fault


def _add_container(path: Path, limit_s: float | None, statistics: StreamStatistics) -> str:
    with av.open(str(path)) as container:
        statistics.metadata = dict(container.metadata)
        tracks: dict[int, TrackStatistics] = {}
        for stream in container.streams:
            if isinstance(stream, VideoStream | AudioStream):
                tracks[stream.index] = _track_of(stream)
                statistics.tracks[tracks[stream.index].kind, stream.index] = tracks[stream.index]
        for packet in timed_packets(container.demux([container.streams[index] for index in tracks])):
            track = tracks[packet.stream.index]
            statistics.messages += 1
            statistics.payload_bytes += packet.size
            if packet.dts is None or packet.time_base is None:
                track.frames += 1
                track.media_bytes += packet.size
                continue
            time_ms = round(packet.dts * packet.time_base * 1000)
            if limit_s is not None and track.first_ms is not None and time_ms - track.first_ms >= limit_s * 1000:
                break
            track.add_frame(time_ms, packet.size)
            if packet.is_keyframe and track.kind is FrameKind.VIDEO:
                track.add_keyframe(time_ms)
        return container.format.name


def _track_of(stream: VideoStream | AudioStream) -> TrackStatistics:
    codec = stream.codec.canonical_name
    profile = f" {stream.profile}" if stream.profile else ""
    if isinstance(stream, VideoStream):
        text = f"{codec}{profile} {stream.width}x{stream.height}"
        return TrackStatistics(
            FrameKind.VIDEO, stream.index, codec, text, width_px=stream.width, height_px=stream.height
        )
    text = f"{codec}{profile} {stream.rate / 1000:g} kHz {stream.layout.name}"
    return TrackStatistics(
        FrameKind.AUDIO, stream.index, codec, text, sample_rate_hz=stream.rate, channels=stream.channels
    )
