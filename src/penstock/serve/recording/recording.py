"""One recording: the messages of one stream, in one file after another.

Owns where a file begins and ends. A file begins with the codec configuration in force, then a key frame; without video,
any audio. It ends at the first such place past the limits of time and size, or behind a changed codec configuration,
since many players cannot change theirs within a file; until that place comes, and until the file is long enough by the
clock and in bytes, messages stay in the old file, so none is lost. How often recordings begin is limited. Metadata that
changes within a file is not in it. A disk that fails ends the file, and another is begun after a pause.

Runs in the writer's thread.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, ParamSpec

from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.codec_config import CodecConfig
from penstock.relay.follower import FollowerBatch
from penstock.relay.payload import Payload, read_payloads
from penstock.relay.segment import Entry
from penstock.serve.recording.archive import Archive
from penstock.serve.recording.manifest import Gap, SegmentRow
from penstock.serve.recording.open_segment import OpenSegment

P = ParamSpec("P")

_SLICE_MESSAGES: Final = 64
_SLICE_BYTES: Final = 1024 * 1024
"""Read and written at a time: what bounds the memory, and how long other threads wait for this one."""
_STEP_INTERVAL_S: Final = 1.0
"""An encoder may set its clock with each message; it is noted as a gap once a second."""
_REFUSED_PAUSE_S: Final = 1.0
_AWAY: Final = "the publisher was away"
_KEY_WAIT_MS: Final = 10_000
"""A stream that sends no key frame for so long is recorded from where it is."""


@dataclass(frozen=True, slots=True)
class RecordingOrder:
    """What is to be recorded."""

    recording_id: str
    app: str
    stream: str
    is_append: bool
    """Whether its files are the next segments of that stream's newest recording, if there is one."""
    is_continued: bool = False
    """Whether another worker has recorded it so far, under the same recording_id."""
    last_timestamp_ms: int | None = None
    """If so, the last timestamp there; None: not known."""

    @property
    def stream_key(self) -> str:
        """The stream as viewers name it."""
        return f"{self.app}/{self.stream}"


@dataclass(slots=True)
class _Missing:
    """What is known of a gap before the message behind it has come."""

    reason: str
    messages: int = 0
    size_bytes: int = 0


class Recording:
    """One stream being recorded."""

    def __init__(self, archive: Archive, order: RecordingOrder) -> None:
        self._archive = archive
        self._order = order
        self._is_append = order.is_append
        self._is_continued = order.is_continued
        self.recording_id = order.recording_id
        """Until its first file is begun, that of the order."""
        self._next_segment = 1
        self._segment: OpenSegment | None = None
        self._config = CodecConfig()
        self._held: list[Frame] = []
        """What of it is not in the file: it is in the next one, but goes here too if a message comes that needs it."""
        self._is_changed = False
        """Whether the file is to end for a changed codec configuration."""
        self._missing: _Missing | None = None
        self._continuations: deque[int] = deque()
        self._retry_at: float | None = None
        self._is_admitted = False
        """Whether its first file is counted in the allowance."""
        self._step_told_at: float | None = None
        self._waits_since_ms: int | None = None
        self._last_timestamp_ms = order.last_timestamp_ms
        self._written_timestamp_ms = order.last_timestamp_ms
        self._at_risk: list[Entry] = []
        """Messages that are lost if the next write fails."""
        self.dropped_messages = 0
        """Not recorded because the disk had failed."""

    def take(self, batch: FollowerBatch) -> None:
        """Record some messages."""
        self._config = batch.config
        if batch.dropped_messages:
            self._miss("the disk is too slow", batch.dropped_messages, batch.dropped_bytes)
            self._catch_up_with_setup()
        for entries in _slices(batch.entries):
            for entry, payload in read_payloads(batch.segment, entries, self._archive.chunk_size):
                self._guarded(self._take, entry, payload, batch.at)

    def flush(self) -> None:
        """Write what was taken."""
        self._guarded(self._flush)

    def continue_at(self, position: int) -> None:
        """Messages from this position of the log on are of another publication."""
        self._continuations.append(position)

    def end(self) -> None:
        """The stream is over."""
        self._guarded(self._finish)

    def _guarded(self, action: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            action(*args, **kwargs)
        except OSError as error:
            self._fail(error)

    # One message.

    def _take(self, entry: Entry, payload: Payload, at: float) -> None:
        if entry.is_setup or self._is_new_kind(entry.kind):
            frame = frame_of(entry.kind, entry.timestamp_ms, bytes(payload))
            self._learn(frame)
            if entry.is_setup:
                self._take_setup(frame)
                return
        while self._continuations and entry.position >= self._continuations[0]:
            self._continuations.popleft()
            if self._last_timestamp_ms is not None:
                self._miss(_AWAY)
        self._at_risk.append(entry)
        if self._may_begin(entry):
            if self._segment is not None and self._is_to_end(self._segment, entry, at):
                self._finish()
                self._at_risk.append(entry)
            if self._segment is None:
                self._begin(entry, at)
        if self._segment is None:
            self._at_risk.clear()
            self._pass_over(entry)
            return
        self._write_held(self._segment, entry.kind)
        placed = self._segment.place(entry)
        if placed.is_step and (self._step_told_at is None or at - self._step_told_at >= _STEP_INTERVAL_S):
            self._step_told_at = at
            self._miss("the encoder's clock stepped")
        self._note_gap(self._segment, entry, at, is_step=placed.is_step)
        self._last_timestamp_ms = entry.timestamp_ms
        self._segment.add(entry, payload, placed)
        if self._segment.is_written:
            self._settle()

    def _flush(self) -> None:
        if self._segment is not None:
            self._segment.flush()
        self._settle()

    def _settle(self) -> None:
        """The disk has taken everything."""
        self._at_risk.clear()
        self._written_timestamp_ms = self._last_timestamp_ms

    def _is_new_kind(self, kind: FrameKind) -> bool:
        if kind is FrameKind.VIDEO:
            return self._config.video_codec_id is None
        return kind is FrameKind.AUDIO and self._config.audio_codec_id is None

    def _learn(self, frame: Frame) -> None:
        if self._is_new_kind(frame.kind) and not frame.is_malformed:
            self._config = self._config.with_media(frame)
        if frame.is_setup:
            self._config = self._config.with_frame(frame)

    def _take_setup(self, frame: Frame) -> None:
        # What is in force goes into a file when it is begun. Metadata goes there only: FFmpeg takes what comes later
        # for subtitles, and other players forget the duration.
        if self._segment is None or frame.kind is FrameKind.DATA:
            return
        if self._segment.is_changed_by(frame):
            self._held.append(frame)
            self._is_changed = True
        else:
            self._segment.add_setup(frame)

    def _catch_up_with_setup(self) -> None:
        """Codec configuration that came within a gap."""
        segment = self._segment
        if segment is not None:
            self._held = [frame for frame in self._config.frames if segment.lacks(frame)]
            self._is_changed = self._is_changed or any(map(segment.is_changed_by, self._held))

    def _write_held(self, segment: OpenSegment, kind: FrameKind) -> None:
        for frame in [frame for frame in self._held if frame.kind is kind]:
            self._held.remove(frame)
            segment.add_setup(frame)

    def _may_begin(self, entry: Entry) -> bool:
        if entry.is_key or (entry.kind is FrameKind.AUDIO and self._config.video_codec_id is None):
            return True
        if self._segment is not None:
            return False
        if self._waits_since_ms is None:
            self._waits_since_ms = entry.timestamp_ms
        return entry.timestamp_ms - self._waits_since_ms >= _KEY_WAIT_MS

    def _is_to_end(self, segment: OpenSegment, entry: Entry, at: float) -> bool:
        limits = self._archive.limits
        if segment.file_bytes >= limits.max_bytes:
            return True
        if not self._is_changed and segment.place(entry).time_ms < limits.max_s * 1000:
            return False
        # Timestamps and codec configuration are the publisher's to send as it likes.
        age_s = at - segment.began_at
        return age_s >= limits.min_small_s or (age_s >= min(limits.min_s, limits.max_s) and segment.is_mostly_media)

    # Files.

    def _begin(self, entry: Entry, at: float) -> None:
        archive, order = self._archive, self._order
        manifest = archive.manifest
        if manifest is None:
            self._miss("the folder of recordings cannot be used")
            return
        if self._retry_at is not None and archive.clock() < self._retry_at:
            return
        if not self._is_admitted:
            refusal = archive.allowance.refusal(order.stream_key, archive.clock())
            if refusal is not None:
                self._retry_at = archive.clock() + _REFUSED_PAUSE_S
                self._miss(refusal)
                archive.failed(order.stream_key, refusal)
                return
            self._is_admitted = True
        newest = manifest.newest(order.app, order.stream) if self._is_append else None
        if newest is not None:
            self.recording_id = newest.recording_id
        started_at = archive.wall_time(at)
        key = self.recording_id, self._next_segment
        boot_id = archive.boot.boot_id
        row = SegmentRow.begun(key, order.app, order.stream, started_at, entry.timestamp_ms, boot_id=boot_id)
        self._segment = segment = OpenSegment.begin(
            archive.disk, manifest, row, self._config, keyframe_room=archive.limits.keyframe_room, at=at
        )
        if self._is_continued:
            self._miss(_AWAY)
        self._is_append = self._is_continued = False
        self._next_segment = segment.row.segment + 1
        self._retry_at = self._waits_since_ms = None
        self._held.clear()
        self._is_changed = False
        archive.started(segment.row)

    def _finish(self) -> None:
        if self._segment is not None:
            self._segment.finish(self._archive.wall_time(self._archive.clock()))
            self._archive.ended(self._segment.row)
            self._segment = None
            self._settle()

    def _fail(self, error: OSError) -> None:
        """The disk does not do what it should: the file ends here, and nothing is recorded for a while."""
        archive = self._archive
        reason = error.strerror or str(error)
        if self._segment is not None:
            self._segment.fail(reason, archive.wall_time(archive.clock()))
            archive.ended(self._segment.row)
            self._segment = None
        self._miss(reason)
        for entry in self._at_risk:
            self._pass_over(entry)
        self._at_risk.clear()
        self._last_timestamp_ms = self._written_timestamp_ms
        self._retry_at = archive.clock() + archive.limits.retry_pause_s
        archive.failed(self._order.stream_key, reason)

    # Gaps.

    def _miss(self, reason: str, messages: int = 0, size_bytes: int = 0) -> None:
        if self._missing is None:
            self._missing = _Missing(reason)
        self._missing.messages += messages
        self._missing.size_bytes += size_bytes

    def _pass_over(self, entry: Entry) -> None:
        """A message for which there is no file: missed if the disk is at fault, else not wanted yet."""
        if self._missing is not None:
            self._missing.messages += 1
            self._missing.size_bytes += entry.payload_bytes
            self.dropped_messages += 1

    def _note_gap(self, segment: OpenSegment, entry: Entry, at: float, *, is_step: bool) -> None:
        missing = self._missing
        if missing is None:
            return
        self._missing = None
        # Over a step of the clock, timestamps do not tell how much is missing.
        last_ms = entry.timestamp_ms if is_step or self._last_timestamp_ms is None else self._last_timestamp_ms
        gap = Gap(
            at_ms=segment.time_ms,
            length_ms=max(0, entry.timestamp_ms - last_ms),
            dropped_messages=missing.messages,
            dropped_bytes=missing.size_bytes,
            reason=missing.reason,
        )
        segment.add_gap(gap, at)
        self._archive.missed(segment.row, gap)


def _slices(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Runs of messages, each bounded in number and, but for a single large one, in bytes."""
    start = 0
    size = 0
    for index, entry in enumerate(entries):
        if index > start and (index - start >= _SLICE_MESSAGES or size + entry.encoded_bytes > _SLICE_BYTES):
            yield entries[start:index]
            start, size = index, 0
        size += entry.encoded_bytes
    yield entries[start:]
