"""What the archive job makes, and what it reports of each recorded file.

Owns the row that is stored with the outputs and in `gold.archive`, and the rule by which a file need not be done again.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from penstock.pipeline.lake.hours import us_of, utc_of_us
from penstock.pipeline.lake.storage import StoredFile
from penstock.pipeline.sources.flv.manifest import Segment

JOB_VERSION: Final = 1
"""Raised when the outputs change, so that all of them are made anew."""

_LASTING: Final = frozenset(("archived", "damaged", "unusable"))
"""Results that stay until the file changes; anything else is tried again by every run."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What to make."""

    hls_segment_s: int = 6
    thumbnail_every_s: int = 10
    thumbnail_width_px: int = 320

    @property
    def recipe(self) -> str:
        """All that the outputs depend on beside the recording."""
        pictures = f"thumbnails by {self.thumbnail_every_s} s of {self.thumbnail_width_px} px"
        return f"version {JOB_VERSION}, HLS by {self.hls_segment_s} s, {pictures}"


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """A row of `gold.archive`, whose columns say what the fields mean. Times are in microseconds."""

    path: str
    app: str
    stream: str
    recording_id: str
    segment: int
    started_at_us: int
    recipe: str
    video: str | None
    audio: str | None
    status: str = "failed"
    reason: str | None = None
    bytes: int = 0
    modified_at_us: int | None = None
    tags: int = 0
    damaged_places: int = 0
    damaged_bytes: int = 0
    duration_ms: int = 0
    keyframes: int = 0
    keyframe_index: str = "none"
    gaps: int = 0
    gap_ms: int = 0
    timestamp_jumps: int = 0
    jumps: str = "[]"
    moved_frames: int = 0
    mp4_path: str | None = None
    mp4_bytes: int | None = None
    hls_path: str | None = None
    hls_bytes: int | None = None
    hls_segments: int | None = None
    sheet_path: str | None = None
    thumbnails: int = 0

    @classmethod
    def begun(cls, segment: Segment, recipe: str) -> "ArchiveRow":
        """The row of a segment of whose file nothing is known yet."""
        return cls(
            path=segment.path,
            app=segment.app,
            stream=segment.stream,
            recording_id=segment.recording_id,
            segment=segment.segment,
            started_at_us=segment.started_at_us,
            recipe=recipe,
            video=segment.video,
            audio=segment.audio,
        )

    @property
    def key(self) -> tuple[str, int]:
        """Which segment it is about."""
        return self.recording_id, self.segment

    def holds_for(self, file: StoredFile | None, recipe: str) -> bool:
        """Whether nothing is to be done for the file as it is now. The archive of a file that is gone stays valid."""
        if self.status not in _LASTING:
            return False
        made_of = self.bytes, self.modified_at_us, self.recipe
        return file is None or made_of == (file.size, file.modified_at_us, recipe)

    def to_table(self) -> dict[str, Any]:
        """The columns of `gold.archive`."""
        values = asdict(self)
        values["started_at"] = utc_of_us(values.pop("started_at_us"))
        modified_at_us = values.pop("modified_at_us")
        values["modified_at"] = None if modified_at_us is None else utc_of_us(modified_at_us)
        return values

    @classmethod
    def of_table(cls, values: dict[str, Any]) -> "ArchiveRow":
        """The row that `to_table` gave."""
        modified_at = values["modified_at"]
        times = {
            "started_at_us": us_of(values["started_at"]),
            "modified_at_us": None if modified_at is None else us_of(modified_at),
        }
        return cls.of_json(values | times)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "ArchiveRow":
        """The row whose fields these are. Another version may have more of them, or fewer."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})
