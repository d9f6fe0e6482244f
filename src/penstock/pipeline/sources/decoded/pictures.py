"""Decoded pictures of a recording at chosen times.

Owns the choice of what is decoded: key frames only, or the pictures on the screen at every multiple of an interval. A
decoder starts at a key frame and stops at the last wanted picture of that GOP. A GOP that cannot be decoded is reported
once, and decoding goes on at the next key frame.

The result does not depend on how a file is cut: the pictures of a GOP belong to the part that its key frame is in.
"""

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from penstock.errors import MalformedMedia
from penstock.media.flv import VIDEO_TAG
from penstock.pipeline.sources.decoded.coded_track import CodedTrack, read_track
from penstock.pipeline.sources.files import OpenFile
from penstock.pipeline.sources.flv.plan import FlvPart


@dataclass(frozen=True, slots=True)
class Picture:
    """What is on the screen at `at_ms`. `dts_ms` and `pts_ms` are those of its frame."""

    at_ms: int
    dts_ms: int
    pts_ms: int
    frame: VideoFrame


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part of a recording that cannot be decoded. `at_ms` is None where no time is known."""

    at_ms: int | None
    reason: str


def pictures_of(file: OpenFile, part: FlvPart, every_ms: int | None) -> Iterator[Picture | Unreadable]:
    """Pictures of a part in the order of time; every key frame if there is no interval."""
    track = read_track(file, part, VIDEO_TAG)
    yield from (Unreadable(None, each.reason) for each in track.damage if not (part.is_open and each.is_to_end))
    keys = np.flatnonzero(track.is_key).tolist()
    for first, following in pairwise([*keys, len(track)]):
        key_ms = int(track.pts_ms[first])
        if every_ms is None:
            yield from _decoded(file, track, range(first, first + 1), [key_ms])
            continue
        first_ms = -(-key_ms // every_ms) * every_ms
        times_ms = list(range(first_ms, _end_ms(file, part, track, following), every_ms))
        if times_ms:
            yield from _decoded(file, track, range(first, following), times_ms)


def _end_ms(file: OpenFile, part: FlvPart, track: CodedTrack, last: int) -> int:
    """When the picture of the next key frame is shown; at the end of the file, just behind the last picture."""
    if last < len(track):
        return int(track.pts_ms[last])
    if part.end < file.file_bytes:
        following = read_track(file, replace(part, start=part.end, end=part.end + 1), VIDEO_TAG)
        if len(following):
            return int(following.pts_ms[0])
    return int(track.pts_ms.max()) + 1


def _decoded(file: OpenFile, track: CodedTrack, gop: range, times_ms: list[int]) -> Iterator[Picture | Unreadable]:
    """The pictures at these times, all of one GOP."""
    dts_by_pts = {int(track.pts_ms[index]): int(track.dts_ms[index]) for index in gop}
    shown: list[VideoFrame] = []
    dts_ms = int(track.dts_ms[gop.start])
    wanted = times_ms
    try:
        decoder = track.decoder(VideoCodecContext)
        for index in gop:
            dts_ms = int(track.dts_ms[index])
            shown += decoder.decode(track.packet(file, index))
            # A picture stays on the screen until the next one is there.
            while len(shown) > 1:
                frame, following = shown[0], shown[1]
                count = bisect.bisect_left(wanted, following.pts or 0)
                yield from (_picture(frame, at_ms, dts_by_pts) for at_ms in wanted[:count])
                wanted = wanted[count:]
                del shown[0]
            if not wanted:
                return
        shown += decoder.decode(None)
    except (av.FFmpegError, MalformedMedia) as error:
        yield Unreadable(wanted[0], f"cannot be decoded from {dts_ms} ms on: {error}")
        return
    pts_ms = [frame.pts or 0 for frame in shown]
    for at_ms in wanted:
        place = bisect.bisect_right(pts_ms, at_ms) - 1
        if place >= 0:
            yield _picture(shown[place], at_ms, dts_by_pts)


def _picture(frame: VideoFrame, at_ms: int, dts_by_pts: dict[int, int]) -> Picture:
    pts_ms = at_ms if frame.pts is None else frame.pts
    return Picture(at_ms, dts_by_pts.get(pts_ms, pts_ms), pts_ms, frame)
