"""A recording as MP4 and as HLS, without encoding anything anew.

Owns what goes into the containers. The FLV is read by our own code and handed to FFmpeg as a stream of tags on one
continuous time (`media.continuous_time`), without script data and without messages that no decoder could use; so
neither jumps nor damaged places reach FFmpeg. HLS is made from the finished MP4, so both have the same frames.

Tracks whose codec has no place in MP4 are left out and named. Every path here is local.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import av
from av.container import InputContainer, OutputContainer
from av.packet import Packet

from penstock.errors import MalformedMedia
from penstock.media.continuous_time import Timeline
from penstock.media.flv import AUDIO_TAG, VIDEO_TAG, write_file_header, write_tag
from penstock.media.flv_index import is_key_video, is_timed_media
from penstock.media.frame import FrameKind, frame_of
from penstock.pipeline.jobs.verify import Verification
from penstock.pipeline.sources.files import OpenFile
from penstock.pipeline.sources.flv.recorded_tags import RecordedTags, track_of

MP4_CODECS: Final = frozenset(("h264", "hevc", "vvc", "av1", "vp9", "aac", "mp3", "opus", "flac", "ac3", "eac3"))
"""FFmpeg's names of the codecs of Enhanced RTMP that players expect in MP4."""
_CODECS_WITH_CONFIG: Final = frozenset(("h264", "hevc", "vvc", "aac", "opus", "flac"))
PLAYLIST_NAME: Final = "index.m3u8"
INIT_NAME: Final = "init.mp4"
SEGMENT_SUFFIX: Final = ".m4s"

# Apple's players take HEVC only under this name, with its codec configuration outside of the frames, as in FLV.
_CODEC_TAGS: Final = {"hevc": "hvc1"}
_READ_BYTES: Final = 1024 * 1024
# A track that begins behind so much of the file is not waited for.
_PROBE_BYTES: Final = 32 * 1024 * 1024
_PROBE_US: Final = 600_000_000


@dataclass(frozen=True, slots=True)
class Remuxed:
    """What became of the tracks."""

    has_video: bool
    left_out: tuple[str, ...]
    """Tracks that are in the recording and not in the MP4, and why."""


class ContinuousFlv:
    """A recording as FFmpeg is to see it: a file that can only be read onwards."""

    def __init__(self, file: OpenFile, verification: Verification) -> None:
        self._pieces = _pieces(file, verification)
        self._pending = bytearray()

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        pending = self._pending
        while len(pending) < size and (piece := next(self._pieces, None)) is not None:
            pending += piece
        data = bytes(pending[:size])
        del pending[:size]
        return data


def _pieces(file: OpenFile, verification: Verification) -> Iterator[bytes]:
    yield write_file_header(has_audio=True, has_video=True)
    # The same rule over the same headers gives the same jumps as it did when the file was verified.
    timeline = Timeline(verification.start_ms)
    tags = RecordedTags(file)
    damages = 0
    is_picture_lost = False
    for tag in tags:
        if tag.kind not in (AUDIO_TAG, VIDEO_TAG):
            continue
        is_timed = is_timed_media(tag.kind, tag.start)
        time_ms = timeline.place(track_of(tag), tag.timestamp_ms) if is_timed else timeline.front_ms
        if len(tags.damages) > damages:
            damages, is_picture_lost = len(tags.damages), True
        if tag.kind == VIDEO_TAG and is_timed and is_picture_lost:
            # A frame that refers to lost pictures would be shown corrupted.
            is_picture_lost = not is_key_video(tag.start)
            if is_picture_lost:
                continue
        payload = tags.payload_of(tag)
        if payload and not frame_of(FrameKind(tag.kind), time_ms, payload).is_malformed:
            yield write_tag(tag.kind, time_ms, payload)


def write_mp4(file: OpenFile, verification: Verification, path: Path) -> Remuxed:
    """Make an MP4 that begins with its index, so that playing can start before all of it has come."""
    options = {"probesize": str(_PROBE_BYTES), "analyzeduration": str(_PROBE_US)}
    stream = ContinuousFlv(file, verification)
    with (
        av.open(stream, "r", format="flv", buffer_size=_READ_BYTES, options=options) as source,
        av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as target,
    ):
        outputs, left_out = _outputs(source, target)
        if not outputs:
            raise MalformedMedia("archive", "; ".join(left_out) or "neither video nor audio")
        known = {stream.index for stream in source.streams}
        late: dict[int, str] = {}
        count = 0
        for packet in _packets(source):
            if packet.stream.index in outputs:
                packet.stream = outputs[packet.stream.index]
                target.mux(packet)
                count += 1
            elif packet.stream.index not in known:
                late[packet.stream.index] = f"{packet.stream.type} begins or changes too late in the file"
        if count == 0:
            raise MalformedMedia("archive", "no frame that can be decoded")
        has_video = any(output.type == "video" for output in outputs.values())
    return Remuxed(has_video, (*left_out, *late.values()))


def write_hls(mp4_path: Path, folder: Path, segment_s: int) -> None:
    """Make a playlist with its segments, cut at key frames."""
    folder.mkdir()
    with _path_without_percent(folder) as path:
        options = {
            "hls_time": str(segment_s),
            "hls_playlist_type": "vod",
            "hls_segment_type": "fmp4",
            "hls_fmp4_init_filename": INIT_NAME,
            "hls_segment_filename": f"{path}/%05d{SEGMENT_SUFFIX}",
            "hls_flags": "independent_segments",
        }
        with (
            av.open(str(mp4_path)) as source,
            av.open(f"{path}/{PLAYLIST_NAME}", "w", format="hls", options=options) as target,
        ):
            outputs, _ = _outputs(source, target)
            for packet in _packets(source):
                packet.stream = outputs[packet.stream.index]
                target.mux(packet)


@contextmanager
def _path_without_percent(folder: Path) -> Iterator[str]:
    """Another path to a folder: FFmpeg takes %d for its number anywhere in a path, and has no way to escape it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _outputs(source: InputContainer, target: OutputContainer) -> tuple[dict[int, Any], list[str]]:
    """A track of the target for each track of the source that it can hold, and what is left out."""
    outputs: dict[int, Any] = {}
    left_out: list[str] = []
    for stream in source.streams:
        codec = _codec_of(stream)
        if codec not in MP4_CODECS:
            left_out.append(f"MP4 cannot hold {codec or 'a codec that FFmpeg does not know'}")
            continue
        if codec in _CODECS_WITH_CONFIG and not stream.codec_context.extradata:
            left_out.append(f"{codec} has no codec configuration")
            continue
        output = target.add_stream_from_template(stream, opaque=True)
        if codec in _CODEC_TAGS:
            output.codec_context.codec_tag = _CODEC_TAGS[codec]
        outputs[stream.index] = output
    return outputs, left_out


def _codec_of(stream: Any) -> str | None:
    """FFmpeg's name of the codec, which is not that of the decoder where FFmpeg has several; None: it knows none."""
    context = stream.codec_context
    return None if context is None else context.codec.canonical_name


def _packets(source: InputContainer) -> "Iterator[Packet[Any]]":
    """Every packet but the empty ones that tell the end to decoders."""
    for packet in source.demux():
        if not packet.size or packet.dts is None:
            continue
        if packet.pts is None or packet.pts < packet.dts:
            # No player can show what it has yet to decode, and no muxer takes it.
            packet.pts = packet.dts
        yield packet
