"""Time in a recorded file: what of a stream's timestamps is taken off, so that the file begins at 0 and never jumps.

Owns the step from the stream's time to the file's. Distances between messages are kept, but where the encoder's clock
is set: back by more than a second against its own track, as the relay counts it, or ahead by more than an hour. The
file then goes on 40 ms behind its newest message, and distances are kept from there on. Audio and video share one
distance to the stream's time while they share a clock; a track that has a clock of its own gets its own.

Codec configuration and data are stamped with anything, mostly 0: they go where they say if that is near, else where
they came.
"""

from typing import Final, NamedTuple

from penstock.media.frame import FrameKind

_JUMP_BACK_MS: Final = 1000
"""Audio and video are not quite in order of time; beyond this the encoder has set its clock back."""
_JUMP_AHEAD_MS: Final = 3_600_000
"""A pause is kept as it was; beyond this it is no pause."""
_STEP_MS: Final = 40
"""What the file goes on by when the clock was set: a frame of video, two of audio."""


class Placed(NamedTuple):
    """Where a message goes in the file."""

    time_ms: int
    base_ms: int
    """What was taken off its timestamp."""
    is_step: bool
    """Whether the encoder's clock was set before it."""


class FileTime:
    """The time in one file."""

    def __init__(self, first_timestamp_ms: int) -> None:
        self.last_ms = 0
        """Of the last message of audio or video."""
        self._newest_ms = 0
        self._base_ms = first_timestamp_ms
        self._tracks: dict[FrameKind, Placed] = {}
        """Where the last message of each track went."""

    def place(self, kind: FrameKind, timestamp_ms: int) -> Placed:
        """Where a message of audio or video goes. Changes nothing."""
        track = self._tracks.get(kind)
        # Where the tracks share a clock, the one that comes second after a step follows the first.
        for base_ms in (self._base_ms if track is None else track.base_ms, self._base_ms):
            time_ms = timestamp_ms - base_ms
            earliest_ms = (0 if track is None else track.time_ms) - _JUMP_BACK_MS
            if earliest_ms <= time_ms <= self._newest_ms + _JUMP_AHEAD_MS:
                # What is older than the file gets the time of the message before it.
                return Placed(time_ms if time_ms >= 0 else self.last_ms, base_ms, False)
        time_ms = self._newest_ms + _STEP_MS
        return Placed(time_ms, timestamp_ms - time_ms, True)

    def advance(self, kind: FrameKind, placed: Placed) -> None:
        """The message is in the file."""
        self._tracks[kind] = placed
        self.last_ms = placed.time_ms
        self._newest_ms = max(self._newest_ms, placed.time_ms)
        if placed.is_step:
            self._base_ms = placed.base_ms

    def place_other(self, timestamp_ms: int) -> int:
        """Where codec configuration or data goes."""
        time_ms = timestamp_ms - self._base_ms
        earliest_ms = max(0, self.last_ms - _JUMP_BACK_MS)
        return time_ms if earliest_ms <= time_ms <= self._newest_ms + _JUMP_AHEAD_MS else self.last_ms
