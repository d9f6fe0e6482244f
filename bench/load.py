"""The load generator as a child process: compiled once, started with options, read by its events and its result.

Owns the binary's place in the user's cache, named by a hash of its source, so that a changed source is compiled anew.
Refuses to go on with a generator that ended badly: `LoadFailed` carries what it printed.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("rtmp_load.c")
COMPILER_FLAGS = ("-O2", "-Wall", "-Wextra")
EXIT_DEADLINE_S = 20.0

Result = dict[str, Any]
"""One JSON object as the generator printed it."""


class LoadFailed(Exception):
    """The generator could not be made, refused its options, or did not do in time what was waited for."""


def compile_generator() -> Path:
    """Path of the generator's binary, compiled now if this source never was."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise LoadFailed("no C compiler: apt-get install gcc libc6-dev")
    recipe = SOURCE.read_bytes() + " ".join(COMPILER_FLAGS).encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-bench"
    binary = cache / f"rtmp_load-{hashlib.sha256(recipe).hexdigest()[:16]}"
    if binary.exists():
        return binary
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        fresh = Path(folder) / "rtmp_load"
        done = subprocess.run(
            [compiler, *COMPILER_FLAGS, "-o", str(fresh), str(SOURCE)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise LoadFailed(f"{SOURCE.name} does not compile:\n{done.stderr}")
        # Renamed when whole, so that two runs at once never start half a binary.
        fresh.replace(binary)
    return binary


class Load:
    """One running generator. A thread gathers its events, so that its pipe never fills."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._seen: set[str] = set()
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read_events, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, event: str, deadline_s: float) -> None:
        """Return once the generator has announced this event."""
        give_up_at = time.monotonic() + deadline_s
        with self._changed:
            while event not in self._seen:
                is_over = not self._reader.is_alive() or time.monotonic() >= give_up_at
                if is_over:
                    raise self._failure(f"no {event} within {deadline_s:g} s")
                self._changed.wait(0.1)

    def result(self, deadline_s: float = EXIT_DEADLINE_S) -> Result:
        """Wait for the end and return what was measured."""
        assert self._process.stdout is not None
        try:
            # The result is one line, far below what a pipe holds: it never keeps the generator from ending.
            status = self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise self._failure(f"still running after {deadline_s:g} s") from None
        self._reader.join()
        if status != 0:
            raise self._failure(f"ended with status {status}")
        result: Result = json.loads(self._process.stdout.read())
        return result

    def stop(self) -> Result:
        """End the window now and return what was measured."""
        self._process.terminate()
        return self.result()

    def kill(self) -> None:
        """Harmless on a generator that has ended."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _failure(self, what: str) -> LoadFailed:
        return LoadFailed(f"{self._process.args!r}: {what}\n{''.join(self._lines[-10:])}")

    def _read_events(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._changed:
                self._lines.append(line)
                if line.startswith("{"):
                    self._seen.add(json.loads(line)["event"])
                self._changed.notify_all()


@contextmanager
def load(mode: str, options: Mapping[str, object], cpu: int | None = None) -> Iterator[Load]:
    """Run the generator for the length of the block, on one core if it is named."""
    arguments = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    process = subprocess.Popen(
        [str(compile_generator()), mode, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    running = Load(process)
    try:
        if cpu is not None:
            os.sched_setaffinity(process.pid, {cpu})
        yield running
    finally:
        running.kill()
