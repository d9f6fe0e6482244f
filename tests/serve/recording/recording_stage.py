"""A stream, a follower and a recording on one thread, under clocks of the test's own; and disks that misbehave.

The disk is a real folder. What goes in is written by hand; what was recorded is read by the tests' own FLV reader.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from penstock.media.frame import FrameKind, frame_of
from penstock.relay.follower import Follower, FollowerLimits
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.readable_log import LogLimits
from penstock.relay.segment import MemoryStore
from penstock.serve.boot import Boot
from penstock.serve.recording.archive import Archive, SegmentLimits
from penstock.serve.recording.listener import RecordingListener
from penstock.serve.recording.manifest import Gap, SegmentRow, read_row
from penstock.serve.recording.recording import Recording, RecordingOrder
from penstock.serve.recording.recording_file import Disk
from penstock.serve.recording.retention import RetentionLimits
from penstock.serve.settings import FileModes
from penstock.serve.streams.stream_table import shared_encoders
from tests.support.samples import AUDIO, DATA, VIDEO, Sample, flv_samples

CHUNK_SIZE = 128
WALL_TIME = 1_759_320_000.0  # 2025-10-01T12:00:00Z
METADATA = b"\x02\x00\x0aonMetaData\x08\x00\x00\x00\x01\x00\x05title\x02\x00\x04show\x00\x00\x09"
VIDEO_SETUP = b"\x17\x00\x00\x00\x00\x01\x42\xc0\x1e\xff\xe1\x00\x00\x01\x00\x00"
OTHER_VIDEO_SETUP = b"\x17\x00\x00\x00\x00\x01\x64\x00\x1f\xff\xe1\x00\x00\x01\x00\x00"
AUDIO_SETUP = b"\xaf\x00\x12\x10"
OTHER_AUDIO_SETUP = b"\xaf\x00\x11\x90"


def key(timestamp_ms: int, size: int = 300) -> Sample:
    return Sample(VIDEO, timestamp_ms, b"\x17\x01\x00\x00\x00" + timestamp_ms.to_bytes(5, "big") * (size // 5))


def inter(timestamp_ms: int, size: int = 10) -> Sample:
    return Sample(VIDEO, timestamp_ms, b"\x27\x01\x00\x00\x00" + timestamp_ms.to_bytes(5, "big") * (size // 5))


def audio(timestamp_ms: int) -> Sample:
    return Sample(AUDIO, timestamp_ms, b"\xaf\x01" + timestamp_ms.to_bytes(5, "big"))


def video_setup(payload: bytes = VIDEO_SETUP, timestamp_ms: int = 0) -> Sample:
    return Sample(VIDEO, timestamp_ms, payload)


def audio_setup(payload: bytes = AUDIO_SETUP, timestamp_ms: int = 0) -> Sample:
    return Sample(AUDIO, timestamp_ms, payload)


def metadata(payload: bytes = METADATA, timestamp_ms: int = 0) -> Sample:
    return Sample(DATA, timestamp_ms, payload)


class Journal(RecordingListener):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.started: list[SegmentRow] = []
        self.closed: list[SegmentRow] = []
        self.gaps: list[Gap] = []
        self.failures: list[tuple[str, str]] = []
        self.stalls: list[float] = []
        self.deleted: list[SegmentRow] = []
        self.clock_jumps: list[tuple[float, float]] = []
        self.archive_failures: list[str] = []

    def recording_started(self, row: SegmentRow) -> None:
        self.started.append(row)

    def segment_closed(self, row: SegmentRow) -> None:
        self.closed.append(row)

    def gap(self, row: SegmentRow, gap: Gap) -> None:
        self.gaps.append(gap)

    def failed(self, stream_key: str, reason: str) -> None:
        self.failures.append((stream_key, reason))

    def stalled(self, stalled_s: float) -> None:
        self.stalls.append(stalled_s)

    def segment_deleted(self, row: SegmentRow) -> None:
        self.deleted.append(row)

    def clock_jumped(self, jump_s: float, pause_s: float) -> None:
        self.clock_jumps.append((jump_s, pause_s))

    def archive_failed(self, reason: str) -> None:
        self.archive_failures.append(reason)


class FullDisk(Disk):
    """A disk with so much room. What does not fit is written in part, as a kernel does it."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes

    def write(self, descriptor: int, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        if self.room_bytes == 0:
            # The kernel's own error, from a device that is made for it.
            full = os.open("/dev/full", os.O_WRONLY)
            try:
                return os.writev(full, pieces)
            finally:
                os.close(full)
        data = b"".join(pieces)[: self.room_bytes]
        self.room_bytes -= len(data)
        return super().write(descriptor, [data])


class Stage:
    """One stream being recorded."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: SegmentLimits | None = None,
        retention: RetentionLimits | None = None,
        tap_limits: FollowerLimits | None = None,
        disk: Disk | None = None,
        modes: FileModes | None = None,
        clock_error_s: float = 0.0,
        boot: Boot | None = None,
    ) -> None:
        self.folder = folder
        self.now = 1000.0
        self.clock_error_s = clock_error_s
        """Of the wall clock."""
        self.journal = Journal()
        self.archive = Archive(
            folder,
            limits or SegmentLimits(),
            retention or RetentionLimits(min_free_bytes=0),
            modes or FileModes(),
            boot or Boot.alone(),
            chunk_size=CHUNK_SIZE,
            disk=disk or Disk(),
            clock=lambda: self.now,
            wall_clock=lambda: WALL_TIME - 1000.0 + self.now + self.clock_error_s,
            tell=lambda notice: notice(self.journal),
        )
        self.archive.do_chores()
        self._tap_limits = tap_limits or FollowerLimits()
        self.publish("one")

    def publish(
        self,
        recording_id: str,
        *,
        app: str = "live",
        stream: str = "test",
        is_append: bool = False,
        is_continued: bool = False,
        last_timestamp_ms: int | None = None,
    ) -> None:
        """A stream begins anew, or goes on that was recorded elsewhere."""
        self.log = StreamLog(MemoryStore(), shared_encoders(CHUNK_SIZE), LogLimits(), LogBudget(2**30))
        self.follower = Follower(self.log, self._tap_limits)
        order = RecordingOrder(recording_id, app, stream, is_append, is_continued, last_timestamp_ms)
        self.recording = Recording(self.archive, order)

    def append(self, *samples: Sample) -> None:
        """The publisher sends these, and they are flushed together."""
        for sample in samples:
            self.log.append(frame_of(FrameKind(sample.type_id), sample.timestamp_ms, sample.payload), self.now)
        flush = self.log.flush(self.now)
        assert flush is not None
        self.follower.on_flush(flush, self.now)

    def write(self) -> None:
        """The writer gets its turn."""
        for batch in self.follower.take():
            self.recording.take(batch)
            self.follower.done(batch)
        self.recording.flush()

    def send(self, *samples: Sample) -> None:
        """Both, one message at a time."""
        for sample in samples:
            self.append(sample)
            self.write()

    def end(self) -> None:
        self.recording.end()

    def rows(self) -> list[SegmentRow]:
        """All rows of the manifest, as they are on the disk."""
        lines = (self.folder / "manifest.jsonl").read_bytes().splitlines()
        rows = [read_row(line) for line in lines]
        return [row for row in rows if row is not None]

    def recorded(self, row: SegmentRow) -> list[Sample]:
        """What is in a file, without the metadata at its beginning."""
        script, *samples = flv_samples(self.folder / row.path)
        assert script.type_id == DATA
        return samples
