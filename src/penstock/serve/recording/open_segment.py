"""The segment being written: a file, its row in the manifest and the time in it.

Owns what a segment begins with and what it says of itself at its end. Decides nothing about when to begin or end. Every
call may raise the disk's own OSError, and `fail` is the answer to that.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from penstock.amf import AmfValue
from penstock.media.describe import describe_audio, describe_video
from penstock.media.flv_metadata import read_flv_metadata
from penstock.media.frame import Frame, FrameKind, SetupSlot, configures_decoder
from penstock.media.packets import PacketKind
from penstock.relay.codec_config import CodecConfig
from penstock.relay.payload import Payload
from penstock.relay.segment import Entry
from penstock.serve.recording.file_names import file_names
from penstock.serve.recording.file_time import FileTime, Placed
from penstock.serve.recording.manifest import Gap, Manifest, SegmentRow, SegmentStatus
from penstock.serve.recording.recording_file import Disk, RecordingFile

_MAX_GAPS: Final = 100
_GAPS_INTERVAL_S: Final = 60.0
"""The manifest only grows, and a row has all gaps of its file: it hears of the first at once, and of more once a minute
or at the end of the file."""
_DECODER_SETUP: Final = frozenset((PacketKind.SETUP, PacketKind.MULTICHANNEL_CONFIG))


class OpenSegment:
    """One file of a recording."""

    def __init__(self, manifest: Manifest, file: RecordingFile, row: SegmentRow, began_at: float) -> None:
        self.row = row
        self.began_at = began_at
        """By the clock."""
        self._head_bytes = 0
        self._manifest = manifest
        self._file = file
        self._time = FileTime(row.first_timestamp_ms)
        self._gaps_saved_at: float | None = None
        self._config: dict[SetupSlot, bytes] = {}
        self._last_timestamp_ms = row.last_timestamp_ms

    @classmethod
    def begin(
        cls, disk: Disk, manifest: Manifest, row: SegmentRow, config: CodecConfig, *, keyframe_room: int, at: float
    ) -> "OpenSegment":
        """Begin a file with the codec configuration in force.

        Of the row, the path and the codecs are filled in, and its number is raised if there is such a segment already.
        """
        metadata, *others = config.joining_frames(row.first_timestamp_ms)
        file = RecordingFile.create(
            disk,
            manifest.folder,
            file_names(row.app, row.stream, row.started_at),
            manifest.modes.file,
            members=_members_of(metadata),
            keyframe_room=keyframe_room,
        )
        segment = cls(manifest, file, replace(row, path=file.path.name), at)
        for frame in others:
            segment.add_setup(frame)
        segment._head_bytes = file.file_bytes
        segment.row = manifest.begin(segment.row)
        return segment

    @property
    def file_bytes(self) -> int:
        """The size of the file, reserved room included."""
        return self._file.file_bytes

    @property
    def is_mostly_media(self) -> bool:
        """Whether there is more media in it than it began with: metadata, reserved room and codec configuration."""
        return self.file_bytes >= 2 * self._head_bytes

    def place(self, entry: Entry) -> Placed:
        """Where in the file's time a message goes."""
        if entry.kind is FrameKind.DATA:
            return Placed(self._time.place_other(entry.timestamp_ms), 0, False)
        return self._time.place(entry.kind, entry.timestamp_ms)

    @property
    def time_ms(self) -> int:
        """The time in the file of the last message of audio or video."""
        return self._time.last_ms

    def is_changed_by(self, frame: Frame) -> bool:
        """Whether a message of codec configuration is another than the one that players began this file with."""
        return any(self._config.get(slot, frame.payload) != frame.payload for slot in _decoder_slots(frame))

    def lacks(self, frame: Frame) -> bool:
        """Whether a message of codec configuration is not in the file as it is."""
        return any(self._config.get(slot) != frame.payload for slot in _decoder_slots(frame))

    def add_setup(self, frame: Frame) -> None:
        """Add codec configuration. It is stamped with anything: it gets no time before the last message."""
        self._remember(frame)
        if configures_decoder(frame):
            self._describe(frame.kind, frame.payload)
        time_ms = max(self._time.last_ms, self._time.place_other(frame.timestamp_ms))
        self._file.add(frame.kind, time_ms, frame.payload, is_key=False)

    def add(self, entry: Entry, payload: Payload, placed: Placed) -> None:
        """Add a message of the stream."""
        if entry.kind is not FrameKind.DATA:
            self._time.advance(entry.kind, placed)
        self._last_timestamp_ms = max(self._last_timestamp_ms, entry.timestamp_ms)
        if (entry.kind is FrameKind.VIDEO and self.row.video is None) or (
            entry.kind is FrameKind.AUDIO and self.row.audio is None
        ):
            self._describe(entry.kind, bytes(payload))
        self._file.add(entry.kind, placed.time_ms, payload, is_key=entry.is_key)

    def add_gap(self, gap: Gap, at: float) -> None:
        """Note that some of the stream is missing. Of very many gaps, the last ones become one. `at`: by the clock."""
        gaps = self.row.gaps
        if len(gaps) >= _MAX_GAPS:
            last = gaps[-1]
            gap = replace(
                last,
                length_ms=gap.at_ms + gap.length_ms - last.at_ms,
                dropped_messages=last.dropped_messages + gap.dropped_messages,
                dropped_bytes=last.dropped_bytes + gap.dropped_bytes,
            )
            gaps = gaps[:-1]
        self.row = replace(self.row, gaps=(*gaps, gap))
        if self._gaps_saved_at is None or at - self._gaps_saved_at >= _GAPS_INTERVAL_S:
            self._gaps_saved_at = at
            self._manifest.save(self.row, is_synced=False)

    @property
    def is_written(self) -> bool:
        """Whether the disk has taken everything that was added."""
        return self._file.is_written

    def flush(self) -> None:
        """Write what was added."""
        self._file.flush()

    def finish(self, ended_at: datetime) -> None:
        """Close it, with everything that is known of it."""
        self._file.finish()
        self.row = replace(
            self.row,
            status=SegmentStatus.CLOSED,
            ended_at=ended_at,
            duration_ms=self._file.duration_ms,
            bytes=self._file.file_bytes,
            keyframes=self._file.keyframes,
            last_timestamp_ms=self._last_timestamp_ms,
        )
        self._manifest.save(self.row)

    def fail(self, reason: str, ended_at: datetime) -> None:
        """Close it as it is, made whole if the disk allows. Does not raise."""
        report = self._file.abandon()
        duration_ms = self._file.duration_ms if report is None else report.duration_ms
        self.row = replace(
            self.row,
            status=SegmentStatus.FAILED,
            reason=reason,
            ended_at=ended_at,
            duration_ms=duration_ms,
            bytes=self._file.file_bytes if report is None else report.file_bytes,
            keyframes=self._file.keyframes,
            last_timestamp_ms=min(self._last_timestamp_ms, self.row.first_timestamp_ms + duration_ms),
        )
        # The manifest is on the same disk; the row goes out with the next one that the disk takes.
        with contextlib.suppress(OSError):
            self._manifest.save(self.row)

    def _remember(self, frame: Frame) -> None:
        self._config |= dict.fromkeys(_decoder_slots(frame), frame.payload)

    def _describe(self, kind: FrameKind, payload: bytes) -> None:
        if kind is FrameKind.VIDEO:
            self.row = replace(self.row, video=describe_video(payload) or self.row.video)
        elif kind is FrameKind.AUDIO:
            self.row = replace(self.row, audio=describe_audio(payload) or self.row.audio)


def _decoder_slots(frame: Frame) -> list[SetupSlot]:
    return [slot for slot in frame.setup_slots if slot.packet_kind in _DECODER_SETUP]


def _members_of(metadata: Frame) -> Mapping[str, AmfValue]:
    match read_flv_metadata(metadata.payload):
        case (_, dict(members)):
            return members
    return {}
