"""Who hears of recordings: logs, facts and figures. All calls come on the thread of the media path.

The base class does nothing. `RecordingLog` writes the lines that operators read.
"""

import time

from penstock.logs import OncePerSecond, get_logger
from penstock.serve.recording.manifest import Gap, SegmentRow, SegmentStatus


class RecordingListener:
    """Hears what becomes of recordings. Nothing here may block or raise."""

    def recording_started(self, row: SegmentRow) -> None:
        """A file was begun."""

    def segment_closed(self, row: SegmentRow) -> None:
        """A file is finished, failed or repaired, as its status says."""

    def gap(self, row: SegmentRow, gap: Gap) -> None:
        """Some of the stream is not in the file."""

    def failed(self, stream_key: str, reason: str) -> None:
        """A stream cannot be recorded now; it is tried again after a pause."""

    def stalled(self, stalled_s: float) -> None:
        """The disk has taken nothing for so long. Streams wait for it in memory, as far as they may."""

    def segment_deleted(self, row: SegmentRow) -> None:
        """A file was given up to make room, or was too old; the reason is in the row."""

    def clock_jumped(self, jump_s: float, pause_s: float) -> None:
        """The wall clock was set by so much: for a while nothing is deleted for its age."""

    def archive_failed(self, reason: str) -> None:
        """The folder of recordings cannot be used or looked after; it is tried again after a pause."""


class RecordingLog(RecordingListener):
    """Log lines about recordings. What may come with each frame comes once a second."""

    def __init__(self) -> None:
        self._log = get_logger()
        self._gaps = OncePerSecond(time.monotonic)
        self._failures = OncePerSecond(time.monotonic)

    def recording_started(self, row: SegmentRow) -> None:
        self._log.info(
            "Recording started",
            stream_key=row.stream_key,
            path=row.path,
            recording_id=row.recording_id,
            segment=row.segment,
        )

    def segment_closed(self, row: SegmentRow) -> None:
        fields = {
            "stream_key": row.stream_key,
            "path": row.path,
            "duration_ms": row.duration_ms,
            "bytes": row.bytes,
            "keyframes": row.keyframes,
            "gaps": len(row.gaps),
        }
        match row.status:
            case SegmentStatus.REPAIRED:
                self._log.warning("Recording repaired", **fields, reason=row.reason)
            case SegmentStatus.FAILED:
                self._log.error("Recording failed", **fields, reason=row.reason)
            case _:
                self._log.info("Recording saved", **fields, video=row.video, audio=row.audio)

    def gap(self, row: SegmentRow, gap: Gap) -> None:
        if (swallowed := self._gaps.admit()) is not None:
            self._log.warning(
                "Recording has a gap",
                stream_key=row.stream_key,
                path=row.path,
                at_ms=gap.at_ms,
                length_ms=gap.length_ms,
                dropped_messages=gap.dropped_messages,
                reason=gap.reason,
                swallowed=swallowed,
            )

    def failed(self, stream_key: str, reason: str) -> None:
        if (swallowed := self._failures.admit()) is not None:
            self._log.error("Recording not possible", stream_key=stream_key, reason=reason, swallowed=swallowed)

    def stalled(self, stalled_s: float) -> None:
        self._log.warning("Disk of recordings stalled", stalled_s=round(stalled_s, 1))

    def segment_deleted(self, row: SegmentRow) -> None:
        self._log.info(
            "Recording deleted", stream_key=row.stream_key, path=row.path, bytes=row.bytes, reason=row.reason
        )

    def clock_jumped(self, jump_s: float, pause_s: float) -> None:
        self._log.warning(
            "Clock was set: no recording is deleted by age for a while", jump_s=round(jump_s), pause_s=pause_s
        )

    def archive_failed(self, reason: str) -> None:
        self._log.error("Folder of recordings not usable", reason=reason)
