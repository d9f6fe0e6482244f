"""Retention: which recorded files are given up, by age, by all their bytes and by the space left on the disk.

Owns the choice, oldest first, never a file that is being written. Where another program fills the disk and giving up
everything would not make room enough, nothing is given up for room. Deletes nothing itself and reads no clock.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from penstock.serve.recording.manifest import SegmentRow, SegmentStatus


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How much is kept. None: no such limit."""

    max_age_s: float | None = None
    """Since the end of a segment."""
    max_total_bytes: int | None = None
    """Of all files together, the open ones with them."""
    min_free_bytes: int = 1_000_000_000
    """What is to stay free on the disk, if giving up recordings can do it."""


class Surplus(NamedTuple):
    """A segment to give up, and why."""

    row: SegmentRow
    reason: str


def surplus(
    rows: Iterable[SegmentRow], limits: RetentionLimits, *, now: datetime, open_bytes: int, free_bytes: int
) -> Iterator[Surplus]:
    """What is to go, of rows in the order of their age, the oldest first. `open_bytes`: of files being written."""
    finished = [row for row in rows if row.status is not SegmentStatus.OPEN]
    finished_bytes = sum(row.bytes for row in finished)
    total_bytes = finished_bytes + open_bytes
    if free_bytes + finished_bytes < limits.min_free_bytes:
        limits = replace(limits, min_free_bytes=0)
    for row in finished:
        reason = _reason(row, limits, now, total_bytes, free_bytes)
        if reason is not None:
            total_bytes -= row.bytes
            free_bytes += row.bytes
            yield Surplus(row, reason)


def _reason(row: SegmentRow, limits: RetentionLimits, now: datetime, total_bytes: int, free_bytes: int) -> str | None:
    if limits.max_age_s is not None:
        age = now - (row.ended_at or row.started_at)
        if age > timedelta(seconds=limits.max_age_s):
            return f"older than {limits.max_age_s:g} s"
    if limits.max_total_bytes is not None and total_bytes > limits.max_total_bytes:
        return f"{total_bytes} bytes of recordings, {limits.max_total_bytes} may be kept"
    if free_bytes < limits.min_free_bytes:
        return f"{free_bytes} bytes free on the disk, {limits.min_free_bytes} are to stay free"
    return None
