"""What becomes of recordings, as facts."""

from penstock import facts
from penstock.serve.recording.listener import RecordingListener
from penstock.serve.recording.manifest import Gap, SegmentRow
from penstock.serve.telemetry.facts_writer import FactsWriter


class RecordingFacts(RecordingListener):
    """Tells facts of finished files and of gaps in them."""

    def __init__(self, writer: FactsWriter) -> None:
        self._writer = writer

    def segment_closed(self, row: SegmentRow) -> None:
        """A file is finished, failed or repaired."""
        self._writer.emit(
            facts.RecordingSegmentClosed(
                recording_id=row.recording_id,
                segment=row.segment,
                app=row.app,
                stream=row.stream,
                path=row.path,
                status=row.status.value,
                reason=row.reason,
                started_at_us=int(row.started_at.timestamp() * 1_000_000),
                duration_ms=row.duration_ms,
                size_bytes=row.bytes,
                video=row.video,
                audio=row.audio,
                keyframes=row.keyframes,
                gaps=len(row.gaps),
            )
        )

    def gap(self, row: SegmentRow, gap: Gap) -> None:
        """Some of the stream is not in the file."""
        self._writer.emit(
            facts.RecordingGap(
                recording_id=row.recording_id,
                segment=row.segment,
                app=row.app,
                stream=row.stream,
                path=row.path,
                reason=gap.reason,
                gap_at_ms=gap.at_ms,
                gap_ms=gap.length_ms,
                dropped_messages=gap.dropped_messages,
                dropped_bytes=gap.dropped_bytes,
            )
        )
