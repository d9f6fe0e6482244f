"""When to flush: at once, with each video frame, or on a grid; the busier the server is, the less often.

Owns the choice of the moment and the measure of how long a round of sending takes. Knows no sockets and no clock.
"""

import math
from typing import NamedTuple

from penstock.serve.settings import FlushPolicy

_WIDE_GRIDS_S = (None, 0.050, 0.100)
_WIDEN_ABOVE_S = 0.020
"""A round to a thousand viewers takes 10 ms with three quarters of a core to spare: that is no lag yet."""
_WIDEN_ABOVE_BUSY = 0.6
"""A long round is no load by itself: one that serves many streams is long, and the loop may sleep until the next."""
_NARROW_BELOW_BUSY = 0.3
"""The next narrower interval has about twice the flushes, and so no more than twice the load."""
_CALM_S = 5.0
_SMOOTHING = 0.1


class Waiting(NamedTuple):
    """What a stream has to send."""

    since: float
    has_video: bool
    next_video_at: float | None = None
    """When a frame of video should come, if the stream has any."""


class Pacer:
    """Chooses when a stream is flushed; while the loop is busy and its rounds are long, the interval is wider."""

    def __init__(self) -> None:
        self._step = 0
        self._smoothed_lag_s = 0.0
        self._changed_at = 0.0

    @property
    def grid_s(self) -> float | None:
        """The grid that load has forced; None while there is no need."""
        return _WIDE_GRIDS_S[self._step]

    def observe_round(self, lag_s: float, now: float, busy_share: float) -> None:
        """A round of sending ended this long after the event that caused it, in a loop that is so busy."""
        self._smoothed_lag_s += (lag_s - self._smoothed_lag_s) * _SMOOTHING
        if self._smoothed_lag_s > _WIDEN_ABOVE_S and busy_share > _WIDEN_ABOVE_BUSY:
            # One step a second at most: the wider grid must show its effect first.
            if self._step < len(_WIDE_GRIDS_S) - 1 and now - self._changed_at >= 1.0:
                self._change(self._step + 1, now)
        elif busy_share < _NARROW_BELOW_BUSY and self._step > 0 and now - self._changed_at >= _CALM_S:
            self._change(self._step - 1, now)

    def _change(self, step: int, now: float) -> None:
        self._step = step
        self._changed_at = now
        self._smoothed_lag_s = _WIDEN_ABOVE_S / 2

    def due_at(self, policy: FlushPolicy, waiting: Waiting, max_wait_s: float, busy_share: float) -> float:
        """When what waits is to be sent, in a server whose loops are that busy together. The past means now."""
        grid_s = self._grid_of(policy)
        if grid_s is not None:
            return math.ceil(waiting.since / grid_s) * grid_s
        if waiting.has_video:
            return waiting.since
        wait_s = _audio_wait_s(policy, max_wait_s, busy_share)
        if policy.adapts and waiting.next_video_at is not None and waiting.next_video_at > waiting.since + wait_s:
            return waiting.since
        return waiting.since + wait_s

    def _grid_of(self, policy: FlushPolicy) -> float | None:
        if policy.adapts and self.grid_s is not None:
            return max(self.grid_s, policy.grid_s or 0.0)
        return policy.grid_s


def _audio_wait_s(policy: FlushPolicy, max_wait_s: float, busy_share: float) -> float:
    if not policy.adapts:
        return max_wait_s
    # The more there is to do, the more it pays to send audio along with a frame of video.
    return max_wait_s * min(busy_share / max(1.0 - busy_share, busy_share), 1.0)
