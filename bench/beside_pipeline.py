"""The server's latency with and without a cycle of the pipeline at work on the same machine.

    python -m bench.beside_pipeline [--rounds 3] [--seconds 20] [--viewers 20000]

Owns one comparison: a 4 Mbit/s stream to 200 viewers with facts, recording and JSON logs on, alone, and beside a
rebuild of a simulated day that never ends, run as `penstock up` runs the pipeline: on half of the cores, at low
priority. Rounds are interleaved. Nothing is bound to a core, since neither is a server in use.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from bench.pipeline_report import markdown
from bench.run import Cores, Figures, measure
from bench.scenarios import SCENARIOS
from bench.servers import CONTESTANTS, PENSTOCK
from penstock.commands.pipeline_child import NICENESS
from penstock.pipeline.engine.session import SparkSettings, close_session, open_session
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.simulator import Platform
from penstock.pipeline.simulator.bronze import SimulatedBronze

ANYWHERE = Cores(None, None)


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.beside_pipeline", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--viewers", type=int, default=20_000, help="views of the simulated day that is rebuilt")
    options = parser.parse_args()
    rounds: dict[str, list[Figures]] = {"alone": [], "beside a rebuild": []}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as data:
        facts = write_bronze(Path(data), options.viewers)
        print(f"{facts:,} facts of a simulated day are there to be rebuilt", file=sys.stderr)
        for number in range(1, options.rounds + 1):
            rounds["alone"].append(_figures(options.seconds))
            with rebuilding(data) as spent_s:
                rounds["beside a rebuild"].append(_figures(options.seconds))
            said = ", ".join(f"p99 {figures[-1].p99_ms or 0.0:.1f} ms {name}" for name, figures in rounds.items())
            print(f"round {number}: {said}; Spark had {spent_s[0]:.0f} CPU seconds meanwhile", file=sys.stderr)
    head = ["the server", "p50 ms", "p99 ms", "CPU-s per viewer-minute", "gaps", "pump p99 ms"]
    print(markdown([head, *(_row(name, figures) for name, figures in rounds.items())]))
    faults = {fault for figures in rounds.values() for each in figures for fault in each.faults}
    for fault in sorted(faults):
        print(f"INVALID: {fault}", file=sys.stderr)
    return 1 if faults else 0


def write_bronze(data: Path, viewers: int) -> int:
    """Facts of a simulated day, straight as bronze. How many."""
    spark = open_session(SparkSettings(is_short_lived=True))
    try:
        bronze = SimulatedBronze(Platform(viewers=viewers), Lake(Storage(data / "lake")))
        for _ in bronze.write_hours():
            pass
        return bronze.truth.facts
    finally:
        close_session(spark)


@contextmanager
def rebuilding(data: str) -> Iterator[list[float]]:
    """Rebuild over and over for the length of the block; the CPU seconds that it took, once it is over."""
    is_over, spent_s, current = threading.Event(), [0.0], list[int]()

    def rebuild() -> None:
        while not is_over.is_set():
            current[:] = [_start_rebuild(data)]
            _, _, usage = os.wait4(current[0], 0)
            current.clear()
            spent_s[0] += usage.ru_utime + usage.ru_stime

    worker = threading.Thread(target=rebuild)
    worker.start()
    try:
        yield spent_s
    finally:
        is_over.set()
        for pid in current:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        worker.join()


def _figures(seconds: float) -> Figures:
    return measure(SCENARIOS["fanout-200"], CONTESTANTS["penstock all on"], ANYWHERE, seconds)


def _row(name: str, figures: list[Figures]) -> list[str]:
    def middle(field: str) -> float:
        return median(getattr(each, field) or 0.0 for each in figures)

    gaps = sum(each.gaps or 0 for each in figures)
    return [
        name,
        f"{middle('p50_ms'):.1f}",
        f"{middle('p99_ms'):.1f}",
        f"{middle('cost'):.4f}",
        f"{gaps}",
        f"{middle('pump_p99_ms'):.1f}",
    ]


def _start_rebuild(data: str) -> int:
    line = [str(PENSTOCK), "pipeline", "rebuild", "--data", data]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
    # Waited for by its number, for what it took; Python should not do that as well.
    process.returncode = 0
    return process.pid


if __name__ == "__main__":
    sys.exit(main())
