"""Runs of a target: inputs from a seed, a bound on the time of each, and what is kept of a finding."""

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fuzz.outcome import CHOICE_BYTES, BrokenInvariant, Outcome, Target

FINDINGS_DIR: Final = Path(__file__).resolve().parent / "findings"
# Generous: an input is at most 64 kB, read a few times over, and most take a millisecond.
MAX_RUN_SECONDS: Final = 1.0
_MAX_SHRINKING_RUNS: Final = 3000
_MAX_SHRINKING_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that broke a target, as small as it could be made, and how."""

    target: str
    seed: int
    run: int
    data: bytes
    fault: Exception

    def save(self, directory: Path) -> Path:
        """Write the input as hex, to be given to `--replay`."""
        directory.mkdir(exist_ok=True)
        path = directory / f"{self.target}-{self.seed}-{self.run}.hex"
        path.write_text(f"{self.data.hex()}\n", encoding="ascii")
        return path


@dataclass(slots=True)
class Tally:
    """What the runs of one target came to."""

    target: str
    runs: int = 0
    values: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0

    def __str__(self) -> str:
        rate = self.runs / self.seconds if self.seconds else 0.0
        return (
            f"{self.target:<10} {self.runs:>8} runs {rate:>8.0f}/s {self.values:>9} values {self.refused:>8} refused"
            f"  slowest {1000 * self.slowest_seconds:.0f} ms"
        )


def make_input(target: Target, seed: int, run: int) -> bytes:
    """The input of a run, which the seed and its number decide alone."""
    return target.make(random.Random(f"{seed}:{target.name}:{run}"))


def run_input(target: Target, data: bytes, bound_seconds: float = MAX_RUN_SECONDS) -> tuple[Outcome, float]:
    """One run and its process time. Raises what the target raises, and BrokenInvariant if it took too long."""
    started_at = time.process_time()
    outcome = target.run(data)
    seconds = time.process_time() - started_at
    if seconds > bound_seconds:
        raise BrokenInvariant(f"{seconds:.2f} s for {len(data)} bytes")
    return outcome, seconds


def run_target(
    target: Target, seed: int, *, max_runs: int | None, max_seconds: float | None
) -> tuple[Tally, Finding | None]:
    """Runs until a bound is reached or something is found. Without bounds it does not end."""
    tally = Tally(target.name)
    started_at = time.monotonic()
    finding = None
    while (max_runs is None or tally.runs < max_runs) and finding is None:
        if max_seconds is not None and time.monotonic() - started_at >= max_seconds:
            break
        data = make_input(target, seed, tally.runs)
        try:
            outcome, seconds = run_input(target, data)
        except Exception as fault:  # any exception that leaves a target is what is looked for
            smallest = shrink(data, fault, lambda smaller: run_input(target, smaller))
            finding = Finding(target.name, seed, tally.runs, smallest, fault)
        else:
            tally.values += outcome.values
            tally.refused += outcome.is_refused
            tally.slowest_seconds = max(tally.slowest_seconds, seconds)
        tally.runs += 1
    tally.seconds = time.monotonic() - started_at
    return tally, finding


def shrink(data: bytes, fault: Exception, run: Callable[[bytes], object]) -> bytes:
    """A smaller input that fails alike, found by leaving out ever smaller blocks; bounded in runs and time."""
    ends_at = time.monotonic() + _MAX_SHRINKING_SECONDS
    runs_left = _MAX_SHRINKING_RUNS
    block_bytes = max(len(data) // 2, 1)
    while runs_left > 0:
        at = CHOICE_BYTES
        shrunk = False
        while at < len(data) and runs_left > 0:
            smaller = data[:at] + data[at + block_bytes :]
            runs_left -= 1
            if _fails_alike(smaller, fault, run):
                data = smaller
                shrunk = True
            else:
                at += block_bytes
            if time.monotonic() > ends_at:
                return data
        if block_bytes == 1 and not shrunk:
            break
        block_bytes = max(block_bytes // 2, 1)
    return data


def _fails_alike(data: bytes, fault: Exception, run: Callable[[bytes], object]) -> bool:
    try:
        run(data)
    except Exception as other:  # as above
        return type(other) is type(fault) and _kind(other) == _kind(fault)
    return False


def _kind(fault: Exception) -> str:
    """What was broken, without the bytes and numbers of the case."""
    return re.sub(r"\d+", "", str(fault).partition(":")[0]) if isinstance(fault, BrokenInvariant) else ""
