"""What viewers saw, as their players tell it, to facts.

Owns the tokens by which players name their views, drawn by chance and told to nobody else, how often a view may tell,
and how long it may after its end: the last beacon is sent by a page that goes, as its view does. A view whose viewer
was told no token costs nothing here. What players tell is the word of strangers: it is kept beside what the server
counts, never in its place.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock import facts
from penstock.control.allowance import Allowance
from penstock.control.live import ViewBeacon
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.facts_observer import FactsObserver
from penstock.serve.telemetry.facts_writer import FactsWriter
from penstock.serve.telemetry.told_sessions import names_of

PER_S: Final = 0.2
BURST: Final = 3.0
"""Of one view: with the first picture, every 10 s, and at the end."""
AFTER_END_S: Final = 60.0
MAX_ENDED: Final = 10_000
_TOKEN_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class _View:
    """A view as facts name it."""

    view_id: str
    app: str
    stream: str
    began_us: int


@dataclass(slots=True)
class _Telling:
    """Whoever has a token."""

    viewer: Viewer | None
    """None: it is gone."""
    allowance: Allowance
    ended_as: _View | None = None
    """What facts called it; None: it is there, or facts did not tell of it."""


class Beacons(Observer):
    """Takes beacons. To be among the observers before the facts': a view that ends is still named there."""

    def __init__(self, worker: int, observer: FactsObserver, writer: FactsWriter, now: Callable[[], float]) -> None:
        self._worker = worker
        self._facts = observer
        self._writer = writer
        self._now = now
        self._by_token: dict[str, _Telling] = {}
        self._tokens: dict[Viewer, str] = {}
        self._ended: dict[str, float] = {}
        """Tokens of views that are over, and until when they count, the oldest first."""
        self.told = 0
        self.unknown = 0
        self.limited = 0

    def draw(self) -> str:
        """By what a player is to name a view that is about to begin. To be told to nobody else."""
        return f"{self._worker}.{secrets.token_urlsafe(_TOKEN_BYTES)}"

    def bind(self, token: str, viewer: Viewer) -> None:
        """It names the view of this viewer from now on, let in or not."""
        self._tokens[viewer] = token
        self._by_token[token] = _Telling(viewer, Allowance(PER_S, BURST, self._now()))

    def token_of(self, viewer: Viewer) -> str:
        """The one that names this view, drawn now if nobody has asked before."""
        if viewer not in self._tokens:
            self.bind(self.draw(), viewer)
        return self._tokens[viewer]

    def take(self, beacon: ViewBeacon) -> None:
        """A player has told something."""
        now = self._now()
        self._forget_until(now)
        telling = self._by_token.get(beacon.token)
        view = None if telling is None else self._view_of(telling)
        if telling is None or view is None:
            self.unknown += 1
        elif not telling.allowance.covers(1.0, now):
            self.limited += 1
        else:
            self.told += 1
            self._writer.emit(self._fact(view, beacon))

    def _fact(self, view: _View, beacon: ViewBeacon) -> facts.ViewBeacon:
        return facts.ViewBeacon(
            view_id=view.view_id,
            app=view.app,
            stream=view.stream,
            watched_us=max(0, self._writer.clock.mono_us() - view.began_us),
            startup_ms=beacon.startup_ms,
            played_ms=beacon.played_ms,
            stalls=beacon.stalls,
            stalled_ms=beacon.stalled_ms,
            latency_ms=beacon.latency_ms,
            dropped_frames=beacon.dropped_frames,
        )

    def _view_of(self, telling: _Telling) -> _View | None:
        """None: facts do not tell of it."""
        return telling.ended_as if telling.viewer is None else self._named(telling.viewer)

    def _named(self, viewer: Viewer) -> _View | None:
        view_id, since = self._facts.view_id_of(viewer), self._facts.let_in(viewer)
        if view_id is None or since is None:
            return None
        return _View(view_id, *names_of(viewer.connection.app, viewer.key), since.began_us)

    def play_stopped(self, viewer: Viewer, reason: str) -> None:  # noqa: ARG002
        """A view is over; its player may have something to tell yet."""
        token = self._tokens.pop(viewer, None)
        if token is None:
            return
        telling = self._by_token[token]
        telling.ended_as, telling.viewer = self._named(viewer), None
        self._ended[token] = self._now() + AFTER_END_S
        if len(self._ended) > MAX_ENDED:
            self._forget(next(iter(self._ended)))

    def second_passed(self, now: float) -> None:  # noqa: ARG002
        """Forget who has had its time."""
        self._forget_until(self._now())

    def _forget_until(self, now: float) -> None:
        while self._ended and next(iter(self._ended.values())) <= now:
            self._forget(next(iter(self._ended)))

    def _forget(self, token: str) -> None:
        del self._ended[token]
        del self._by_token[token]
