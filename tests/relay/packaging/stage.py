"""A log, its boundaries, a follower and a packager, under clocks of the test's own; and streams to put through them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.follower import Follower, FollowerBatch, FollowerLimits
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.packaging.boundaries import Boundaries, Boundary, BoundaryRule, Numbering
from penstock.relay.packaging.packager import Packager
from penstock.relay.packaging.parts import Packaged, PackagedPart, SegmentEnd, SegmentStart
from penstock.relay.readable_log import LogLimits
from penstock.relay.segment import MemoryStore
from tests.media import setup_messages
from tests.relay.support import CHUNK_SIZE, ENCODERS

WALL_MS = 1_795_015_685_040
VIDEO_SETUP = setup_messages.AVC_BASELINE_90P25
AUDIO_SETUP = setup_messages.AAC_LC_48K_STEREO


def video(timestamp_ms: int, body: bytes = b"picture", *, is_key: bool = False, composition_ms: int = 0) -> Frame:
    """A picture of H.264."""
    head = bytes((0x17 if is_key else 0x27, 1)) + composition_ms.to_bytes(3, "big", signed=True)
    return frame_of(FrameKind.VIDEO, timestamp_ms, head + body)


def audio(timestamp_ms: int, body: bytes = b"sound") -> Frame:
    """A frame of AAC."""
    return frame_of(FrameKind.AUDIO, timestamp_ms, b"\xaf\x01" + body)


def video_setup(payload: bytes = VIDEO_SETUP, timestamp_ms: int = 0) -> Frame:
    return frame_of(FrameKind.VIDEO, timestamp_ms, payload)


def audio_setup(payload: bytes = AUDIO_SETUP, timestamp_ms: int = 0) -> Frame:
    return frame_of(FrameKind.AUDIO, timestamp_ms, payload)


def steady(
    seconds: float, *, start_ms: int = 0, rate: float = 30, gop: int = 60, sounds: bool = True, pictures: bool = True
) -> list[Frame]:
    """Set-up, then pictures at a rate and frames of sound of 1024 samples at 48 kHz, in order of time."""
    frames = [video_setup(timestamp_ms=start_ms)] * pictures + [audio_setup(timestamp_ms=start_ms)] * sounds
    media: list[Frame] = []
    if pictures:
        for number in range(round(seconds * rate)):
            at_ms = start_ms + round(1000 * number / rate)
            media.append(video(at_ms, b"picture %d" % number * 20, is_key=number % gop == 0))
    if sounds:
        count = round(seconds * 48000 / 1024)
        media += [audio(start_ms + round(1024 * number / 48), b"sound %d" % number) for number in range(count)]
    return frames + sorted(media, key=lambda frame: (frame.timestamp_ms, frame.kind is FrameKind.AUDIO))


@dataclass
class Segment:
    """A segment as it came out, its parts read from the log."""

    start: SegmentStart
    parts: list[PackagedPart] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    end: SegmentEnd | None = None


class Stage:
    """One stream on its way."""

    def __init__(self, rule: BoundaryRule | None = None, limits: FollowerLimits | None = None) -> None:
        self.log = StreamLog(MemoryStore(), ENCODERS, LogLimits(), LogBudget(1 << 40))
        self.boundaries = Boundaries(rule or BoundaryRule(), Numbering.at(WALL_MS))
        self.follower = Follower(self.log, limits or FollowerLimits())
        self.packager = Packager(CHUNK_SIZE)
        self.stamped: list[Boundary] = []
        self._given = 0
        self._kept: list[FollowerBatch] = []
        self.segments: list[Segment] = []
        self.late_ms = 0
        """How much later than its own time a frame comes."""

    def publish(self, frames: Iterable[Frame]) -> None:
        """Each frame is appended and flushed by itself."""
        for frame in frames:
            self.append(frame)
            self.flush()

    def append(self, frame: Frame) -> None:
        wall_ms = WALL_MS + frame.timestamp_ms + self.late_ms
        position = self.log.head + self.log.unflushed_bytes
        boundary = self.boundaries.stamp(frame, position, wall_ms)
        if boundary is not None:
            self.stamped.append(boundary)
        self.log.append(frame, frame.timestamp_ms / 1000)

    def flush(self, *, now: float | None = None) -> None:
        at = self.log.last_timestamp_ms / 1000 if now is None else now
        flush = self.log.flush(at)
        if flush is not None:
            self.follower.on_flush(flush, at)

    def take(self) -> None:
        """Give the packager what is there."""
        for batch in self.follower.take():
            end = batch.entries[-1].position
            new = [each for each in self.stamped[self._given :] if each.position <= end]
            self._given += len(new)
            # Parts refer to the log: what is taken is kept until they were read.
            self._kept.append(batch)
            self._collect(self.packager.take(batch, new))

    def finish(self) -> None:
        self.take()
        self._collect(self.packager.finish())
        for batch in self._kept:
            self.follower.done(batch)
        self._kept = []

    def _collect(self, packaged: list[Packaged]) -> None:
        for each in packaged:
            if isinstance(each, SegmentStart):
                self.segments.append(Segment(each))
            elif isinstance(each, PackagedPart):
                self.segments[-1].parts.append(each)
                payload = b"".join(piece.segment.read(piece.position, piece.size) for piece in each.ranges)
                self.segments[-1].payloads.append(payload)
            else:
                self.segments[-1].end = each

    def forget_boundaries(self) -> None:
        """What was stamped and not given so far is lost."""
        self._given = len(self.stamped)

    @property
    def parts(self) -> list[PackagedPart]:
        return [part for segment in self.segments for part in segment.parts]

    def mp4(self, first: int = 0, last: int | None = None) -> bytes:
        """These segments as a file, with the init segment of the first."""
        chosen = self.segments[first:last]
        init = chosen[0].start.init
        assert init is not None
        pieces = [init.data]
        for segment in chosen:
            for part, payload in zip(segment.parts, segment.payloads, strict=True):
                pieces += [part.boxes, payload]
        return b"".join(pieces)


def packaged(frames: Iterable[Frame], rule: BoundaryRule | None = None) -> Stage:
    """A whole stream, packaged."""
    stage = Stage(rule)
    stage.publish(frames)
    stage.finish()
    return stage
