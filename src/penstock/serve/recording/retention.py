"""Retention: which recorded files are given up, by age, by all their bytes and by the space left on the disk.

Owns the choice, never a file that is being written. What is too old goes oldest first, some at a time, since age is
what a clock says and clocks are wrong at times. For room, the oldest file of the stream with most bytes goes, so that
who records much pays for it and not who records little. Where another program fills the disk and giving up everything
would not make room enough, nothing is given up for room. Deletes nothing itself and reads no clock.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from penstock.serve.recording.manifest import SegmentRow, SegmentStatus

_MIN_AGED: Final = 10
_AGED_PART: Final = 60
"""At most ten files, or a sixtieth of all, go by age at a time. At one time a minute that keeps up with files that are
kept for an hour or longer; and a clock that is wrong for five minutes costs a twelfth of the files, not all."""


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


def aged(rows: Iterable[SegmentRow], max_age_s: float, now: datetime) -> list[Surplus]:
    """What is too old, of rows in the order in which they ended; no more than may go at a time.

    The order is true where the clock was not: a file is no older than those before it, whatever a clock that was behind
    has dated it, and as old as those behind it, if its own end is in the future.
    """
    finished = [row for row in rows if row.status is not SegmentStatus.OPEN]
    old_before = now - timedelta(seconds=max_age_s)
    old = 0
    for number, row in enumerate(finished, 1):
        ended_at = row.ended_at or row.started_at
        if old_before <= ended_at <= now:
            break
        if ended_at < old_before:
            old = number
    old = min(old, max(_MIN_AGED, len(finished) // _AGED_PART))
    return [Surplus(row, f"older than {max_age_s:g} s") for row in finished[:old]]


def surplus(
    rows: Iterable[SegmentRow], limits: RetentionLimits, *, open_bytes: Mapping[str, int], free_bytes: int
) -> Iterator[Surplus]:
    """What is to go for room, of rows in the order in which they ended.

    `open_bytes`: of files being written, by stream.
    """
    files: dict[str, deque[SegmentRow]] = defaultdict(deque)
    for row in rows:
        if row.status is not SegmentStatus.OPEN:
            files[row.stream_key].append(row)
    finished_bytes = {stream_key: sum(row.bytes for row in of_stream) for stream_key, of_stream in files.items()}
    total_bytes = sum(finished_bytes.values()) + sum(open_bytes.values())
    if free_bytes + sum(finished_bytes.values()) < limits.min_free_bytes:
        limits = replace(limits, min_free_bytes=0)
    largest_first = [(-size - open_bytes.get(stream_key, 0), stream_key) for stream_key, size in finished_bytes.items()]
    heapq.heapify(largest_first)
    while largest_first and (reason := _reason(limits, total_bytes, free_bytes)) is not None:
        less_bytes, stream_key = heapq.heappop(largest_first)
        row = files[stream_key].popleft()
        if files[stream_key]:
            heapq.heappush(largest_first, (less_bytes + row.bytes, stream_key))
        total_bytes -= row.bytes
        free_bytes += row.bytes
        yield Surplus(row, reason)


def _reason(limits: RetentionLimits, total_bytes: int, free_bytes: int) -> str | None:
    if limits.max_total_bytes is not None and total_bytes > limits.max_total_bytes:
        return f"{total_bytes} bytes of recordings, {limits.max_total_bytes} may be kept"
    if free_bytes < limits.min_free_bytes:
        return f"{free_bytes} bytes free on the disk, {limits.min_free_bytes} are to stay free"
    return None
