"""One continuous time for a recording whose publisher's timestamps jumped.

Owns the rule: which steps are jumps, and where the media goes on behind them. Works on timestamps alone, as they are
written (FLV: 32 bits of milliseconds, modulo 2**32), so that a walk over tag headers finds out what a later walk over
the whole file will do.

A publisher's clock is one clock, so picture and sound that jump by the same amount must go on together: the track that
jumps first goes on one step behind its last frame, and the others are put under the same shift when they follow. A
track that jumps alone is shifted alone. A track that is silent for long and comes back in time has not jumped.
"""

from dataclasses import dataclass
from typing import Final

from penstock.media.flv import VIDEO_TAG, unwrap_timestamp

MAX_STEP_MS: Final = 10_000
"""A file that goes on by more than this has jumped, or misses so much that no player should stand still for it."""
MAX_JITTER_MS: Final = 100
"""A track that goes back by no more than this is waited for; by more, it has jumped."""
# How far the tracks of one clock lie apart in a file, so that one of them may seem to go back where both jumped.
_MAX_INTERLEAVING_MS: Final = 1000
# Until a track has shown its own: a frame at 30 Hz.
_DEFAULT_STEP_MS: Final = 33

TrackKey = tuple[int, int]
"""Kind of tag, and number of the track."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A jump that was taken out. `at_ms` is the time in the archive, `by_ms` how far the timestamps went astray."""

    at_ms: int
    by_ms: int
    track: str


@dataclass(slots=True)
class _Shift:
    """What is added to the timestamps of all tracks that jumped together."""

    by_ms: int


@dataclass(slots=True)
class _Track:
    written_ms: int
    placed_ms: int
    shift: _Shift
    step_ms: int = _DEFAULT_STEP_MS


class Timeline:
    """Timestamps in, in file order; times out that grow strictly for each track. The first one is `start_ms`."""

    __slots__ = ("_newest", "_start_ms", "_tracks", "earliest_ms", "front_ms", "jumps", "moved_frames")

    def __init__(self, start_ms: int = 0) -> None:
        self._start_ms = start_ms
        self._tracks: dict[TrackKey, _Track] = {}
        self._newest = _Shift(0)
        self.earliest_ms: int | None = None
        self.front_ms: int = start_ms
        """The latest time given out."""
        self.jumps: list[Jump] = []
        self.moved_frames = 0
        """Frames that were not after the one before them, and were put there."""

    def place(self, key: TrackKey, timestamp_ms: int) -> int:
        """The time of a frame whose timestamp is this."""
        track = self._tracks.get(key)
        placed_ms = self._begin(key, timestamp_ms) if track is None else self._go_on(key, track, timestamp_ms)
        self.earliest_ms = placed_ms if self.earliest_ms is None else min(self.earliest_ms, placed_ms)
        self.front_ms = max(self.front_ms, placed_ms)
        return placed_ms

    def _begin(self, key: TrackKey, timestamp_ms: int) -> int:
        if not self._tracks:
            self._newest = _Shift(self._start_ms - timestamp_ms)
        written_ms = unwrap_timestamp(self.front_ms - self._newest.by_ms, timestamp_ms)
        placed_ms = written_ms + self._newest.by_ms
        shift = self._newest
        if abs(placed_ms - self.front_ms) > MAX_STEP_MS:
            self._note_jump(key, self.front_ms, placed_ms - self.front_ms)
            placed_ms = self.front_ms
            shift = _Shift(placed_ms - written_ms)
        self._tracks[key] = _Track(written_ms, placed_ms, shift)
        return placed_ms

    def _go_on(self, key: TrackKey, track: _Track, timestamp_ms: int) -> int:
        written_ms = unwrap_timestamp(track.written_ms, timestamp_ms)
        placed_ms = written_ms + track.shift.by_ms
        if placed_ms < track.placed_ms - MAX_JITTER_MS or placed_ms > self.front_ms + MAX_STEP_MS:
            placed_ms = self._place_after_jump(key, track, written_ms)
        if placed_ms <= track.placed_ms:
            placed_ms = track.placed_ms + 1
            self.moved_frames += 1
        elif 0 < written_ms - track.written_ms < 1000:
            track.step_ms = written_ms - track.written_ms
        track.written_ms, track.placed_ms = written_ms, placed_ms
        return placed_ms

    def _place_after_jump(self, key: TrackKey, track: _Track, written_ms: int) -> int:
        newest = self._newest
        placed_ms = written_ms + newest.by_ms
        earliest_ms = track.placed_ms - _MAX_INTERLEAVING_MS
        if track.shift is not newest and earliest_ms <= placed_ms <= self.front_ms + MAX_STEP_MS:
            track.shift = newest
            if placed_ms <= track.placed_ms:
                # This track was ahead of the one that jumped first. Both wait, or they would not stay together.
                missing_ms = track.placed_ms + track.step_ms - placed_ms
                newest.by_ms += missing_ms
                placed_ms += missing_ms
            return placed_ms
        is_late = self.front_ms - track.placed_ms > MAX_STEP_MS
        placed_ms = self.front_ms if is_late else track.placed_ms + track.step_ms
        self._note_jump(key, placed_ms, written_ms + track.shift.by_ms - placed_ms)
        self._newest = track.shift = _Shift(placed_ms - written_ms)
        return placed_ms

    def _note_jump(self, key: TrackKey, at_ms: int, by_ms: int) -> None:
        self.jumps.append(Jump(at_ms, by_ms, "video" if key[0] == VIDEO_TAG else "audio"))
