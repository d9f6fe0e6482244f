"""What a run says while it runs: files, rows, rate, and how far it is behind live.

Owns the wording. On a terminal one line changes in place and the sum of each run stays; elsewhere there is one line for
each run, as JSON if asked for.
"""

import json
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import IO, Protocol

from rich.console import Console
from rich.status import Status


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What one run did."""

    files: int = 0
    facts: int = 0
    quarantined: int = 0
    partitions: int = 0
    seconds: float = 0.0
    behind_s: float | None = None
    """How old the newest fact was when the run ended; None: there is none."""

    def __str__(self) -> str:
        rate = self.facts / self.seconds if self.seconds else 0.0
        behind = "" if self.behind_s is None else f", {self.behind_s:.0f} s behind live"
        refused = f", {self.quarantined:,} in quarantine" if self.quarantined else ""
        amounts = f"{self.files:,} files, {self.facts:,} facts{refused}, {self.partitions:,} partitions"
        return f"{amounts} in {self.seconds:.1f} s ({rate:,.0f} facts/s){behind}"


class Progress(Protocol):
    """Who hears of a run."""

    def step(self, text: str) -> None:
        """What the run is at now."""

    def say(self, text: str) -> None:
        """Something to be kept."""

    def done(self, figures: RunFigures) -> None:
        """A run has ended."""


class LineProgress:
    """One line for each run and each thing to be kept."""

    def __init__(self, stream: IO[str], *, is_json: bool) -> None:
        self._stream = stream
        self._is_json = is_json

    def step(self, text: str) -> None:
        """Nothing: steps are for those who watch."""

    def say(self, text: str) -> None:
        """A line."""
        self._write(text, {})

    def done(self, figures: RunFigures) -> None:
        """The sum of the run."""
        self._write(f"run done: {figures}", asdict(figures))

    def _write(self, text: str, fields: dict[str, object]) -> None:
        if self._is_json:
            # As the server writes its log, beside which it may appear.
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            text = json.dumps({"time": now, "level": "INFO", "msg": f"pipeline: {text}", **fields})
        else:
            text = f"pipeline: {text}"
        self._stream.write(text + "\n")
        self._stream.flush()


class LiveProgress:
    """A line that changes in place, for a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None

    def step(self, text: str) -> None:
        """Shown until the next step."""
        if self._status is None:
            self._status = self._console.status(text)
            self._status.start()
        self._status.update(text)

    def say(self, text: str) -> None:
        """Stays above the line."""
        self._console.print(text, highlight=False, markup=False)

    def done(self, figures: RunFigures) -> None:
        """The sum of the run stays."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        self._console.print(f"done: {figures}", highlight=False, markup=False)


def progress_for(stream: IO[str] | None = None, *, is_json: bool = False) -> Progress:
    """What fits to where it is written."""
    stream = sys.stderr if stream is None else stream
    if stream.isatty() and not is_json:
        return LiveProgress(Console(file=stream))
    return LineProgress(stream, is_json=is_json)
