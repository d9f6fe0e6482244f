"""One sample of a stream, and what is wrong with it.

Owns the limits. They are those of gold.stream_health and gold.incidents, which find the same afterwards
(docs/5-tables.md); a test holds the two together. Everything is told from one sample, without memory.
"""

from typing import Final

import msgspec

SECOND_US: Final = 1_000_000
KEYFRAME_INTERVAL_MAX_MS: Final = 5_000
"""A viewer who joins either waits for a key frame or starts that far behind the live edge."""
SKEW_MAX_MS: Final = 200
"""About where people begin to notice that lips and sound are apart."""
DRIFT_MAX_MS: Final = 1_000
DRIFT_PER_MS: Final = 600_000
"""One second of drift is allowed per ten minutes of publishing, and one second at the start."""
COLLAPSE_PERCENT: Final = 40


class StreamSecond(msgspec.Struct, frozen=True):
    """The fields of a stream_sample that incidents need."""

    app: str
    stream: str
    at_us: int
    interval_us: int
    bitrate_bps: int
    fps: float
    interval_timestamp_jumps: int
    av_skew_ms: float | None = None
    keyframe_interval_ms: int | None = None
    media_ms: int | None = None
    wall_ms: int | None = None

    @property
    def from_us(self) -> int:
        """When the interval began that it is about."""
        return self.at_us - self.interval_us

    @property
    def is_stalled(self) -> bool:
        """Nothing came."""
        return self.bitrate_bps == 0

    @property
    def skew_ms(self) -> int | None:
        """How far audio and video are apart, if that is too far."""
        skew_ms = self.av_skew_ms
        return None if skew_ms is None or abs(skew_ms) <= SKEW_MAX_MS else int(abs(skew_ms))

    @property
    def drift_ms(self) -> int | None:
        """Media time minus the clock's; None: no frame yet."""
        return None if self.media_ms is None or self.wall_ms is None else self.media_ms - self.wall_ms

    @property
    def is_drifted(self) -> bool:
        """Media time is too far from the clock for the time that has passed."""
        drift_ms, wall_ms = self.drift_ms, self.wall_ms
        if drift_ms is None or wall_ms is None:
            return False
        return abs(drift_ms) > max(wall_ms * DRIFT_MAX_MS // DRIFT_PER_MS, DRIFT_MAX_MS)

    @property
    def has_far_keyframes(self) -> bool:
        """Video comes, and its key frames are too far apart, or there was no second one yet."""
        interval_ms = self.keyframe_interval_ms
        return self.fps > 0 and (interval_ms is None or interval_ms > KEYFRAME_INTERVAL_MAX_MS)


def is_collapsed(bitrate_bps: int, median_bps: int | None) -> bool:
    """Whether a bitrate is far below the stream's median; never without one."""
    return median_bps is not None and bitrate_bps * 100 < median_bps * COLLAPSE_PERCENT
