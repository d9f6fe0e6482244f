"""The archive: the folder of recordings and everything in it, as the writer's thread sees it.

Owns this worker's part in the folder from opening to closing: the manifest, and the repair of what lost workers left
behind, as far as that is its to do. What is given up to make room, one worker decides for all. A folder that cannot be
used is tried again after a pause. Listeners are told through `tell`, since they live on another thread.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from penstock.media.flv_repair import RepairState
from penstock.serve.boot import Boot
from penstock.serve.recording.clock_watch import PAUSE_S, ClockWatch
from penstock.serve.recording.file_allowance import FileAllowance
from penstock.serve.recording.listener import RecordingListener
from penstock.serve.recording.manifest import Gap, Manifest, SegmentRow, SegmentStatus
from penstock.serve.recording.recording_file import Disk, repair_file
from penstock.serve.recording.retention import RetentionLimits, aged, surplus
from penstock.serve.settings import FileModes

_TIDY_INTERVAL_S: Final = 60.0
_SHARED_TIDY_INTERVAL_S: Final = 10.0
"""Where others write too, whose files end without a word to who tidies up."""
_UNFINISHED: Final = frozenset((SegmentStatus.OPEN, SegmentStatus.FAILED))

Notice = Callable[[RecordingListener], None]


_MAX_KEYFRAME_ROOM: Final = 2048
"""All key frames of an hour if there is one in two seconds; of more, every second one, and so on. 36,864 bytes."""
_MIN_KEYFRAME_ROOM: Final = 64


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """When a file ends: at the first key frame past these."""

    max_s: float = 3600.0
    max_bytes: int = 2_000_000_000
    min_s: float = 10.0
    """Below this age by the clock no file ends for what its publisher sends, be it timestamps or codec configuration,
    unless it is full; nor while there is less media in it than it began with."""
    min_small_s: float = 60.0
    """From this age on it may end however little is in it."""
    retry_pause_s: float = 10.0
    """How long to wait after the disk failed."""

    @property
    def keyframe_room(self) -> int:
        """How many key frames there is room for in the index of a file."""
        return min(max(_MIN_KEYFRAME_ROOM, round(self.max_s)), _MAX_KEYFRAME_ROOM)


class Archive:
    """One folder of recordings."""

    def __init__(
        self,
        folder: Path,
        limits: SegmentLimits,
        retention: RetentionLimits,
        modes: FileModes,
        boot: Boot,
        *,
        chunk_size: int,
        disk: Disk,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        tell: Callable[[Notice], None],
    ) -> None:
        self.limits = limits
        self.chunk_size = chunk_size
        self.disk = disk
        self.clock = clock
        self.boot = boot
        self.allowance = FileAllowance(boot.workers)
        self.manifest: Manifest | None = None
        """None while the folder cannot be used."""
        self._folder = folder
        self._retention = retention
        self._modes = modes
        self._wall_clock = wall_clock
        self._tell = tell
        self._open_at = clock()
        self._tidy_at = clock()
        self._age_at = clock()
        self._clock_watch = ClockWatch(clock, wall_clock)

    def wall_time(self, at: float) -> datetime:
        """The time of day at a moment of the clock, to the millisecond."""
        seconds = self._wall_clock() - (self.clock() - at)
        return datetime.fromtimestamp(round(seconds, 3), UTC)

    @property
    def next_chore_at(self) -> float:
        """When `do_chores` has something to do."""
        if self.manifest is None:
            return self._open_at
        return self._tidy_at if self.boot.is_housekeeper else math.inf

    def do_chores(self) -> None:
        """Open the folder if it is not open; if that is this worker's to do, look after it now and then."""
        now = self.clock()
        try:
            if self.manifest is None and now >= self._open_at:
                self._open_at = now + self.limits.retry_pause_s
                self._open()
            if self.manifest is not None and now >= self._tidy_at and self.boot.is_housekeeper:
                self._tidy_at = now + (_TIDY_INTERVAL_S if self.boot.workers == 1 else _SHARED_TIDY_INTERVAL_S)
                self._tidy(self.manifest)
        except OSError as error:
            self.disturbed(f"{error.filename or self._folder}: {error.strerror or error}")

    def close(self) -> None:
        """Let go of the folder."""
        if self.manifest is not None:
            self.manifest.close()
            self.manifest = None

    def delete(self, key: tuple[str, int]) -> None:
        """Give up one file, as the operator wants. One that is being written, or is gone, stays as it is."""
        manifest = self.manifest
        if manifest is None:
            return
        try:
            manifest.catch_up()
            row = manifest.rows.get(key)
            if row is not None and row.status not in (SegmentStatus.OPEN, SegmentStatus.DELETED):
                self._delete(manifest, row, "deleted by the operator")
        except OSError as error:
            self.disturbed(f"{error.filename or self._folder}: {error.strerror or error}")

    # What recordings tell.

    def started(self, row: SegmentRow) -> None:
        """A file was begun."""
        self._tell(lambda listener: listener.recording_started(row))

    def ended(self, row: SegmentRow) -> None:
        """A file is finished or has failed: time to look whether there are too many."""
        self._tell(lambda listener: listener.segment_closed(row))
        self._tidy_at = self.clock()

    def missed(self, row: SegmentRow, gap: Gap) -> None:
        """Some of the stream is not in the file."""
        self._tell(lambda listener: listener.gap(row, gap))

    def failed(self, stream_key: str, reason: str) -> None:
        """Nothing is recorded of a stream for a while."""
        self._tell(lambda listener: listener.failed(stream_key, reason))

    def disturbed(self, reason: str) -> None:
        """The folder cannot be used or looked after as it should."""
        self._tell(lambda listener: listener.archive_failed(reason))

    # The folder.

    def _open(self) -> None:
        manifest = Manifest(self._folder, self._modes)
        try:
            unfinished = [row for row in manifest.rows.values() if row.status in _UNFINISHED]
            for row in unfinished:
                if self.boot.may_finish(row.boot_id):
                    self._repair(manifest, row)
        except OSError:
            manifest.close()
            raise
        self.manifest = manifest

    def _repair(self, manifest: Manifest, row: SegmentRow) -> None:
        """Make a file whole that was being written when its worker or the disk stopped."""
        try:
            report = repair_file(self.disk, manifest.path_of(row))
        except FileNotFoundError:
            manifest.save(replace(row, status=SegmentStatus.DELETED, reason="the file is not there"))
            return
        except OSError as error:
            self._give_up(manifest, row, error.strerror or str(error))
            return
        if report.state is RepairState.UNUSABLE:
            self._give_up(manifest, row, f"nothing in it can be used: {report.reason}")
            return
        repaired = replace(
            row,
            status=SegmentStatus.REPAIRED,
            reason=row.reason or report.reason,
            ended_at=row.ended_at or row.started_at + timedelta(milliseconds=report.duration_ms),
            duration_ms=report.duration_ms,
            bytes=report.file_bytes,
            keyframes=report.keyframes,
            last_timestamp_ms=max(row.last_timestamp_ms, row.first_timestamp_ms + report.duration_ms),
        )
        manifest.save(repaired)
        self._tell(lambda listener: listener.segment_closed(repaired))

    def _give_up(self, manifest: Manifest, row: SegmentRow, reason: str) -> None:
        """A file that cannot be repaired stays as it is; it is tried again at each start."""
        if row.status is not SegmentStatus.FAILED:
            failed = replace(row, status=SegmentStatus.FAILED, reason=reason)
            manifest.save(failed)
            self._tell(lambda listener: listener.segment_closed(failed))

    def _tidy(self, manifest: Manifest) -> None:
        manifest.catch_up()
        if self._retention.max_age_s is not None and self.clock() >= self._age_at:
            # Each time but some may go, so the times are counted too, however many files end.
            self._age_at = self.clock() + _TIDY_INTERVAL_S
            self._tidy_by_age(manifest, self._retention.max_age_s)
        free_bytes = self.disk.free_bytes(self._folder)
        rows = list(manifest.rows.values())
        open_bytes: Counter[str] = Counter()
        for row in rows:
            if row.status is SegmentStatus.OPEN:
                open_bytes[row.stream_key] += self.disk.size_of(manifest.path_of(row))
        for row, reason in surplus(rows, self._retention, open_bytes=open_bytes, free_bytes=free_bytes):
            self._delete(manifest, row, reason)

    def _tidy_by_age(self, manifest: Manifest, max_age_s: float) -> None:
        jump_s = self._clock_watch.jump_s()
        if jump_s is not None:
            self._tell(lambda listener: listener.clock_jumped(jump_s, PAUSE_S))
        if self._clock_watch.is_trusted:
            for row, reason in aged(manifest.rows.values(), max_age_s, self.wall_time(self.clock())):
                self._delete(manifest, row, reason)

    def _delete(self, manifest: Manifest, row: SegmentRow, reason: str) -> None:
        self.disk.delete(manifest.path_of(row))
        deleted = replace(row, status=SegmentStatus.DELETED, reason=reason)
        # On a full disk the row may have to wait; the room that was made is what counts.
        with contextlib.suppress(OSError):
            manifest.save(deleted)
        self._tell(lambda listener: listener.segment_deleted(deleted))
