"""Figures of a worker at a moment, and those of all workers together.

Owns what is counted for operators, as a value that fits into a message, and how workers are added up: counters never go
back when a worker is lost and replaced, since those of its past boots are kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

_STEPS: Final = (1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2)
ROUND_BOUNDS_S: Final = (*(round(step * scale, 6) for scale in (1e-4, 1e-3, 1e-2, 1e-1) for step in _STEPS), 1.0)
"""Of the histogram of rounds: a fifth apart, so that two percentiles can be told apart by as much."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A worker at a moment. What belongs to a part that does not run is None."""

    connections: int = 0
    publishers: int = 0
    viewers: int = 0
    streams: int = 0
    busy_share: float = 0.0
    """How much of its time the loop does not wait."""
    foreground_share: float = 0.0
    """The same without what it does in the background: requests over HTTP and what is made for them."""
    received_bytes: int = 0
    sent_bytes: int = 0
    media_messages: int = 0
    viewer_skips: int = 0
    slow_viewers_closed: int = 0
    follower_resumes: int = 0
    """Times that messages of a stream of another worker were missed, and it went on at a newer place."""
    protocol_violations: int = 0
    limits_hit: Mapping[str, int] = {}
    round_counts: tuple[int, ...] = (0,) * (len(ROUND_BOUNDS_S) + 1)
    round_sum_s: float = 0.0
    flush_grid_s: float = 0.0
    pulls: int = 0
    pull_misses: int = 0
    pull_losses: int = 0
    """Connections to origins that were lost, and tries that failed, without the origin saying no."""
    log_bytes: int = 0
    log_budget_bytes: int = 0
    pushes_live: int = 0
    """Streams that other servers are sent and take."""
    pushes_failing: int = 0
    """Those that should be, and are not."""
    push_failures: int = 0
    push_sent_bytes: int = 0
    recorder_backlog_bytes: int | None = None
    recorder_dropped_messages: int | None = None
    facts_written: int | None = None
    facts_dropped: int | None = None
    facts_pending_bytes: int | None = None
    facts_deleted_files: int | None = None
    facts_held_back: int | None = None
    log_lines_held_back: int | None = None
    beacons_told: int = 0
    """Of players, that became facts."""
    beacons_unknown: int = 0
    """About views that are not there."""
    beacons_limited: int = 0
    """Too soon after another one of the same view."""

    def to_plain(self) -> dict[str, Any]:
        """As a message carries it."""
        return msgspec.structs.asdict(self)

    @classmethod
    def of_plain(cls, values: Mapping[str, Any]) -> "Figures":
        """What a message carried."""
        return msgspec.convert(values, cls)


# What becomes of each when workers are added up. A gauge ends with its worker, a counter does not.
_GAUGES: Final = (
    "connections",
    "publishers",
    "viewers",
    "streams",
    "pulls",
    "log_bytes",
    "log_budget_bytes",
    "pushes_live",
    "pushes_failing",
    "recorder_backlog_bytes",
    "facts_pending_bytes",
)
_LARGEST: Final = ("flush_grid_s", "busy_share", "foreground_share")
_COUNTERS: Final = (
    "received_bytes",
    "sent_bytes",
    "media_messages",
    "viewer_skips",
    "slow_viewers_closed",
    "follower_resumes",
    "protocol_violations",
    "pull_misses",
    "pull_losses",
    "round_sum_s",
    "push_failures",
    "push_sent_bytes",
    "recorder_dropped_messages",
    "facts_written",
    "facts_dropped",
    "facts_deleted_files",
    "facts_held_back",
    "log_lines_held_back",
    "beacons_told",
    "beacons_unknown",
    "beacons_limited",
)


_AT_REST: Final = Figures()


class FiguresSum:
    """All workers together."""

    def __init__(self) -> None:
        self.past = _AT_REST
        """May be given by whoever has counted before. Counters of boots that have ended, gauges at rest."""
        self._boots: dict[int, tuple[str, Figures]] = {}

    @property
    def workers(self) -> dict[int, Figures]:
        """What each live worker told last, by its number."""
        return {worker: figures for worker, (_, figures) in sorted(self._boots.items())}

    def told(self, worker: int, boot_id: str, figures: Figures) -> None:
        """A worker tells its figures; one with another boot id has taken the place of the one before."""
        known = self._boots.get(worker)
        if known is not None and known[0] != boot_id:
            self.lost(worker)
        self._boots[worker] = (boot_id, figures)

    def lost(self, worker: int) -> None:
        """A worker is no more. What it had counted stays."""
        known = self._boots.pop(worker, None)
        if known is not None:
            self.past = _counted_by((self.past, known[1]))

    def foreground_share_beside(self, worker: int) -> float:
        """Of all workers but one, added up: in cores, so it may be above 1."""
        return sum(figures.foreground_share for other, (_, figures) in self._boots.items() if other != worker)

    def total(self) -> Figures:
        """What all have counted since the beginning, and what the live ones hold."""
        live = [figures for _, figures in self._boots.values()]
        counted = _counted_by((self.past, *live))
        held = {name: _sum((_AT_REST, *live), name) for name in _GAUGES}
        largest = {name: max((getattr(each, name) for each in live), default=0.0) for name in _LARGEST}
        return msgspec.structs.replace(counted, **held, **largest)


def _counted_by(all_figures: Iterable[Figures]) -> Figures:
    """The counters alone, added up."""
    each = list(all_figures)
    limits: Counter[str] = Counter()
    for figures in each:
        limits.update(figures.limits_hit)
    return Figures(
        limits_hit=dict(limits),
        round_counts=tuple(map(sum, zip(*(figures.round_counts for figures in each), strict=True))),
        **{name: _sum(each, name) for name in _COUNTERS},
    )


def _sum(all_figures: Iterable[Figures], name: str) -> Any:
    """None if the part runs in no worker."""
    values = [value for figures in all_figures if (value := getattr(figures, name)) is not None]
    return sum(values) if values else None
