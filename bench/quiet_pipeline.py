"""What the pipeline costs beside a server on which little happens.

    python -m bench.quiet_pipeline [--minutes 65] [--viewers 3] [--ask-every-s 0]

Owns one measurement: `penstock up` with its defaults, one small stream and a few viewers or none, and the CPU
seconds of all processes of the pipeline, minute by minute. The first cycle, with the start of Spark, is told apart:
over an hour it counts once. The rest has at least one cycle of its own when it lasts longer than an
hour, for which little waits. With `--ask-every-s` somebody asks for the tables that often. The aim is 2 % of a core,
averaged over an hour.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.pipeline_report import markdown
from bench.servers import PENSTOCK
from bench.usage import cpu_s, with_descendants

AIM = 0.02
HOUR_S = 3600.0
STARTED_WITHIN_S = 300.0
PICTURE = ("--size", "320x180", "--fps", "10", "--bitrate", "200k")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.quiet_pipeline", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=65.0, help="how long to measure after the first cycle")
    parser.add_argument("--viewers", type=int, default=3)
    parser.add_argument("--ask-every-s", type=float, default=0.0, help="how often to ask, 0: never")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, ExitStack() as stack:
        log = stack.enter_context(running_server(Path(folder)))
        port = log.field("server started", "rtmp").rpartition(":")[2]
        url = f"rtmp://127.0.0.1:{port}/live/quiet"
        stack.enter_context(tool("publish", url, "--test-pattern", *PICTURE))
        time.sleep(2.0)
        for _ in range(options.viewers):
            stack.enter_context(tool("play", url))
        pipeline = int(log.field("pipeline started", "pid"))
        log.field("pipeline: run done", "facts")
        first_s = cpu_s(pipeline)
        print(f"the first cycle, with the start of Spark: {first_s:.1f} CPU seconds", file=sys.stderr)
        spent_s, took_s = watch(pipeline, Path(folder) / "data", options.minutes * 60, options.ask_every_s)
        cycles = log.count("pipeline: run done")
    average = spent_s / took_s
    hour = (first_s + average * HOUR_S) / HOUR_S
    head = ["viewers", "first cycle CPU-s", "minutes after", "cycles in all", "CPU-s after", "after", "over an hour"]
    row = [
        f"{options.viewers}",
        f"{first_s:.1f}",
        f"{took_s / 60:.1f}",
        f"{cycles}",
        f"{spent_s:.1f}",
        f"{average:.2%} of a core",
        f"{hour:.2%} of a core",
    ]
    print(markdown([head, row]))
    if cycles < 2:
        print("INVALID: no cycle came after the first; measure for longer", file=sys.stderr)
        return 1
    return 0 if hour < AIM else 1


def watch(pipeline: int, data: Path, seconds: float, ask_every_s: float) -> tuple[float, float]:
    """CPU seconds of the pipeline from now on, and how long that was."""
    began_at, began_cpu_s = time.monotonic(), cpu_s(pipeline)
    told_at = asked_at = began_at
    while (now := time.monotonic()) < began_at + seconds:
        if ask_every_s and now >= asked_at + ask_every_s:
            asked_at = now
            ask(data)
        if now >= told_at + 60:
            told_at = now
            spent_s, processes = cpu_s(pipeline) - began_cpu_s, len(with_descendants(pipeline))
            print(f"{(now - began_at) / 60:4.1f} min: {spent_s:6.1f} CPU-s, {processes} processes", file=sys.stderr)
        time.sleep(0.5)
    return cpu_s(pipeline) - began_cpu_s, time.monotonic() - began_at


def ask(data: Path) -> None:
    """A question as an operator would ask it. What it costs itself is not the pipeline's."""
    line = [str(PENSTOCK), "pipeline", "sql", "--data", str(data), "SELECT count(*) FROM silver.views"]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, timeout=300)


class Log:
    """The JSON lines of a server and its pipeline."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def field(self, start: str, name: str) -> str:
        """A field of the first line that begins so, as soon as there is one."""
        give_up_at = time.monotonic() + STARTED_WITHIN_S
        while time.monotonic() < give_up_at:
            for line in self._lines():
                if line["msg"].startswith(start):
                    return str(line[name])
            time.sleep(0.2)
        raise TimeoutError(f"no line {start!r} within {STARTED_WITHIN_S:g} s")

    def count(self, start: str) -> int:
        """How many lines begin so."""
        return sum(line["msg"].startswith(start) for line in self._lines())

    def _lines(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").split("\n")[:-1]]


@contextmanager
def running_server(folder: Path) -> Iterator[Log]:
    """`penstock up` for the length of the block."""
    path = folder / "up.log"
    places = ["--rtmp", "127.0.0.1:0", "--http", "none", "--data", str(folder / "data"), "--log-format", "json"]
    with path.open("wb") as log:
        process = subprocess.Popen([str(PENSTOCK), "up", *places], stdout=subprocess.DEVNULL, stderr=log)
    try:
        yield Log(path)
    finally:
        process.terminate()
        process.wait(STARTED_WITHIN_S)


@contextmanager
def tool(*words: str) -> Iterator[None]:
    """A client for the length of the block."""
    process = subprocess.Popen([str(PENSTOCK), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    sys.exit(main())
