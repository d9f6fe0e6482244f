"""The pipeline beside the server: a process of its own, at low priority, that comes and goes with the facts.

Owns its life. It is started when the first facts have landed, so that it never delays the server's start; it ends by
itself never, is told to end when the server has ended, and then carries what landed last. If the server's process is
killed, the end of its standard input tells it. What it says goes to the same place as the server's log. Where Spark
cannot run, nothing is started and one warning says what is missing.
"""

import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.errors import MissingProgram
from penstock.pipeline.java import find_java
from penstock.serve.logs import get_logger

_LOOK_EVERY_S: Final = 1.0
NICENESS: Final = 10
_LAST_CYCLE_S: Final = 120.0
_FIRST_RETRY_S: Final = 30.0
_LAST_RETRY_S: Final = 3600.0


class PipelineChild:
    """Watches the landing folder in a thread; `stop` once the server has flushed its facts."""

    def __init__(self, landing: Path, words: Sequence[str]) -> None:
        """`words` are those after `penstock pipeline run`."""
        self._landing = landing
        self._command = [sys.executable, "-m", "penstock", "pipeline", "run", "--until-eof", *words]
        self._is_stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="pipeline", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Let it carry what landed last, and end."""
        self._is_stopping.set()
        self._thread.join()
        process = self._process
        if process is None or process.poll() is not None:
            return
        assert process.stdin is not None  # noqa: S101 - it was asked for
        process.stdin.close()
        try:
            status = process.wait(_LAST_CYCLE_S)
        except subprocess.TimeoutExpired:
            get_logger().warning("the pipeline takes too long to end: what it had begun is done at the next start")
            process.kill()
            process.wait()
        else:
            if status:
                get_logger().warning("the last run of the pipeline failed: it is done at the next start", status=status)

    def _watch(self) -> None:
        retry_s, not_before = _FIRST_RETRY_S, 0.0
        while not self._is_stopping.wait(_LOOK_EVERY_S):
            if self._process is None:
                if time.monotonic() < not_before or not self._has_landed():
                    continue
                if (missing := _missing()) is not None:
                    get_logger().warning("the server goes on without the pipeline", missing=missing)
                    return
                self._process = self._spawn()
                continue
            status = self._process.poll()
            if status is None:
                continue
            self._process = None
            if status == os.EX_UNAVAILABLE:
                get_logger().warning("the server goes on without the pipeline: what it needs is not installed")
                return
            get_logger().warning("the pipeline ended and is started again", status=status, in_seconds=retry_s)
            not_before, retry_s = time.monotonic() + retry_s, min(2 * retry_s, _LAST_RETRY_S)

    def _has_landed(self) -> bool:
        return next((True for path in self._landing.glob("*/*/*.jsonl") if path.name[0] != "."), False)

    def _spawn(self) -> subprocess.Popen[bytes]:
        # A session of its own: the key that interrupts the server must not reach it before the last facts have landed.
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
        os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        get_logger().info("pipeline started", pid=process.pid)
        return process


def _missing() -> str | None:
    """What Spark would need and is not there, in words; None: it can run. Looked for without loading any of it."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed; it comes with: pip install 'penstock[pipeline]'"
    try:
        find_java()
    except MissingProgram as error:
        return str(error)
    return None
