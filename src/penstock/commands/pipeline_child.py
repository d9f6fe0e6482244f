"""The pipeline beside the server: a process of its own, at low priority, that comes and goes with the facts.

Owns its life. It is started when the first facts have landed, so that it never delays the server's start; it ends by
itself never, is told to end when the server has ended, and then ingests what landed last. If it ends all the same, or
cannot be started, it is started again later, and later each time until it has run well for a while. If the server's
process is killed, the end of its standard input tells it. What it says goes to the same place as the server's log.
Where Spark cannot run, nothing is started and one warning says what is missing.
"""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from penstock.commands.extra_packages import not_installed
from penstock.commands.stopping import Stops
from penstock.errors import MissingProgram
from penstock.logs import get_logger
from penstock.pipeline.engine.java import find_java

NICENESS: Final = 10
_SEES_END_S: Final = 0.2
_PENSTOCK: Final = (sys.executable, "-m", "penstock")


class ChildTimes(NamedTuple):
    """How long things take, in seconds."""

    look_every_s: float = 1.0
    first_retry_s: float = 30.0
    last_retry_s: float = 3600.0
    ran_well_s: float = 600.0
    """One that ran for so long is started again as soon as the first time."""
    last_cycle_s: float = 120.0
    at_once_s: float = 5.0
    """What one that is to end at once has for it, before it is killed."""


class Backoff:
    """When to try again: later each time, until something has gone well."""

    def __init__(self, times: ChildTimes) -> None:
        self._times = times
        self._retry_s = times.first_retry_s

    def after(self, ran_s: float) -> float:
        """How long to wait after a try that came to so much."""
        if ran_s >= self._times.ran_well_s:
            self._retry_s = self._times.first_retry_s
        retry_s, self._retry_s = self._retry_s, min(2 * self._retry_s, self._times.last_retry_s)
        return retry_s


class PipelineChild:
    """Watches the landing folder in a thread; `stop` once the server has flushed its facts."""

    def __init__(
        self,
        landing: Path,
        words: Sequence[str],
        stops: Stops,
        times: ChildTimes | None = None,
        *,
        program: Sequence[str] = _PENSTOCK,
    ) -> None:
        """`words` are those after `penstock pipeline run`."""
        self._landing = landing
        self._command = [*program, "pipeline", "run", "--until-eof", *words]
        self._stops = stops
        self._times = times or ChildTimes()
        self._is_stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="pipeline", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Let it ingest what landed last, and end; or end it at once, if that is asked for."""
        self._is_stopping.set()
        self._thread.join()
        process = self._process
        if process is None:
            return
        _end_input(process)
        if process.poll() is not None:
            return
        get_logger().info("the pipeline ingests the last facts; another signal ends it at once")
        if self._stops.wait_for(lambda wait_s: _has_ended(process, wait_s), self._times.last_cycle_s):
            if process.returncode:
                get_logger().warning(
                    "the last run of the pipeline failed: it is done at the next start", status=process.returncode
                )
            return
        reason = "was not waited for" if self._stops.is_at_once.is_set() else "takes too long to end"
        get_logger().warning(f"the pipeline {reason}: what it had begun is done at the next start")
        self._end_at_once(process)

    def _end_at_once(self, process: subprocess.Popen[bytes]) -> None:
        # To one that has seen the end of its input a signal is the second word, by which it leaves its run as it is.
        if not _has_ended(process, _SEES_END_S):
            process.terminate()
        if not _has_ended(process, self._times.at_once_s):
            # It leads a group of its own, with Java in it.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _watch(self) -> None:
        backoff = Backoff(self._times)
        started_at, not_before = 0.0, 0.0
        while not self._is_stopping.wait(self._times.look_every_s):
            now = time.monotonic()
            if self._process is None:
                if now < not_before or not self._has_landed():
                    continue
                if (missing := _missing()) is not None:
                    get_logger().warning("the server goes on without the pipeline", missing=missing)
                    return
                try:
                    self._process, started_at = self._spawn(), now
                except OSError as error:
                    retry_s = backoff.after(0.0)
                    not_before = now + retry_s
                    get_logger().warning(
                        "the pipeline cannot be started and is tried again", reason=str(error), in_seconds=retry_s
                    )
                continue
            status = self._process.poll()
            if status is None:
                continue
            _end_input(self._process)
            self._process = None
            if status == os.EX_UNAVAILABLE:
                get_logger().warning("the server goes on without the pipeline: what it needs is not installed")
                return
            retry_s = backoff.after(now - started_at)
            not_before = now + retry_s
            get_logger().warning("the pipeline ended and is started again", status=status, in_seconds=retry_s)

    def _has_landed(self) -> bool:
        return next((True for path in self._landing.glob("*/*/*.jsonl") if path.name[0] != "."), False)

    def _spawn(self) -> subprocess.Popen[bytes]:
        # A session of its own: the key that interrupts the server must not reach it before the last facts have landed.
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
        # It may have ended by now, which is seen soon enough.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        get_logger().info("pipeline started", pid=process.pid)
        return process


def _end_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None  # noqa: S101 - it was asked for
    process.stdin.close()


def _has_ended(process: subprocess.Popen[bytes], wait_s: float) -> bool:
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _missing() -> str | None:
    """What Spark would need and is not there, in words; None: it can run. Looked for without loading any of it."""
    if importlib.util.find_spec("pyspark") is None:
        return not_installed("pyspark")
    try:
        find_java()
    except MissingProgram as error:
        return str(error)
    return None
