"""The newest key frame of a stream, with what a decoder has to know before it.

Owns which frame is taken: that of the newest entry point which readers can see, with the codec configuration in force
there, of track 0. Works on logs that are written here and on those that are followed. One frame is copied, of bounded
size.
"""

from typing import NamedTuple

from penstock.control.thumbnails import MAX_KEY_FRAME_BYTES, MAX_SETUP_BYTES
from penstock.media.codecs import VideoCodec
from penstock.media.frame import FrameKind
from penstock.relay.entry_points import EntryPoint
from penstock.relay.packaging.tracks import default_track, read_tag, setup_in_force
from penstock.relay.payload import payload_of
from penstock.relay.readable_log import ReadableLog

NO_KEY_FRAME = "No key frame has come yet."
NO_VIDEO = "The stream has no video."
_TAG_HEADER_BYTES = 64
"""Far more than the headers before a frame take."""


class KeyFrame(NamedTuple):
    """A frame and what it needs."""

    position: int
    """In its log: another one is another picture."""
    codec: VideoCodec
    setup: bytes
    body: bytes


def newest_point(log: ReadableLog) -> EntryPoint | None:
    """Where the newest key frame lies that readers see; None: there is none."""
    newest, _ = log.points.remembered
    return next((point for point in reversed(newest) if _is_key_frame(log, point)), None)


def _is_key_frame(log: ReadableLog, point: EntryPoint) -> bool:
    segment = log.segment_at(point.position)
    if segment is None:
        return False
    entry = segment.entry_at(point.position)
    return entry.kind is FrameKind.VIDEO and entry.is_key


def read_key_frame(log: ReadableLog, point: EntryPoint, chunk_size: int) -> KeyFrame | str:
    """The frame there, or why it is not one to decode, in words for people."""
    segment = log.segment_at(point.position)
    if segment is None:
        return NO_KEY_FRAME
    entry = segment.entry_at(point.position)
    if entry.payload_bytes > MAX_KEY_FRAME_BYTES + _TAG_HEADER_BYTES:
        return f"The key frame has {entry.payload_bytes} bytes, which is too much."
    encoded = memoryview(segment.read(entry.position, entry.encoded_bytes))
    payload = bytes(payload_of(encoded, entry, chunk_size))
    found = _track_0(payload)
    if found is None:
        return "The key frame cannot be read."
    codec, body = found
    setup_frame = setup_in_force(point.config, FrameKind.VIDEO)
    setup = None if setup_frame is None else _track_0(setup_frame.payload)
    record = setup[1] if setup is not None and setup[0] is codec else b""
    if len(record) > MAX_SETUP_BYTES:
        return f"The codec configuration has {len(record)} bytes, which is too much."
    return KeyFrame(point.position, codec, record, body)


def _track_0(payload: bytes) -> tuple[VideoCodec, bytes] | None:
    tag = read_tag(FrameKind.VIDEO, payload)
    track = None if tag is None else default_track(tag)
    if track is None or not isinstance(track.codec, VideoCodec):
        return None
    return track.codec, payload[track.body_start : track.body_end]
