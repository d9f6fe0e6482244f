"""Real programs beside the tests: start, wait with a deadline, stop by pid.

Owns the life of a child process and the words of its failure: every error ends with the tail of the program's own
output. Refuses to skip: a program that is not installed is an error that names its Debian package.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.02
LOG_TAIL_CHARACTERS = 2000


class ProgramMissing(Exception):
    """A program, or a part of it, is not installed."""

    def __init__(self, what: str, debian_package: str) -> None:
        super().__init__(f"{what} is not installed: apt-get install {debian_package}")


class ProgramFailed(Exception):
    """A program ended early, ended badly, or did not do in time what was waited for."""


@dataclass(frozen=True, slots=True)
class RunningProgram:
    """A child process whose output, both streams together, goes to `log_path`."""

    process: subprocess.Popen[bytes]
    log_path: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def log_text(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def failure(self, what: str) -> ProgramFailed:
        return ProgramFailed(f"{self.process.args!r}: {what}\n{self.log_text()[-LOG_TAIL_CHARACTERS:]}")

    def wait_for_log(self, text: str, deadline_s: float) -> None:
        """Return once `text` is somewhere in the log."""
        self._wait_until(lambda: text in self.log_text(), f"{text!r} in the log", deadline_s)

    def wait_for_port(self, port: int, deadline_s: float) -> None:
        """Return once 127.0.0.1:`port` accepts a connection."""
        self._wait_until(lambda: _accepts(port), f"port {port} to accept", deadline_s)

    def wait_for_exit(self, deadline_s: float) -> int:
        """Return the exit status."""
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise self.failure(f"still running after {deadline_s} s") from None

    def stop(self, grace_s: float = 15.0) -> int:
        """Terminate, kill if that was not enough, and return the exit status. Harmless on a process that has ended."""
        self.process.terminate()
        try:
            return self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(grace_s)

    def _wait_until(self, is_done: Callable[[], bool], waited_for: str, deadline_s: float) -> None:
        give_up_at = time.monotonic() + deadline_s
        while True:
            # Asked before the condition: a program may do what is waited for and end at once.
            status = self.process.poll()
            if is_done():
                return
            if status is not None:
                raise self.failure(f"ended with status {status} while waiting for {waited_for}")
            if time.monotonic() >= give_up_at:
                raise self.failure(f"waited {deadline_s} s for {waited_for}")
            time.sleep(POLL_S)


@contextmanager
def running(command: Sequence[str], log_path: Path) -> Iterator[RunningProgram]:
    """Run `command` for the length of the block; it is stopped at the end whatever happens."""
    with log_path.open("wb") as log_file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=subprocess.STDOUT)
    program = RunningProgram(process, log_path)
    try:
        yield program
    finally:
        program.stop()


def run_to_end(command: Sequence[str], log_path: Path, deadline_s: float) -> str:
    """Run `command` until it ends by itself with status 0, and return what it printed."""
    with running(command, log_path) as program:
        status = program.wait_for_exit(deadline_s)
        if status != 0:
            raise program.failure(f"ended with status {status}")
        return program.log_text()


def find_program(name: str, debian_package: str) -> str:
    """Full path of a program. System folders are searched too, as a plain user's PATH may lack them."""
    search_path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which(name, path=search_path)
    if found is None:
        raise ProgramMissing(name, debian_package)
    return found


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether no thread of a process has taken a signal yet that was sent to it. One sent meanwhile would be lost."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (pending,) = (line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) >> (number - 1) & 1)


def free_port() -> int:
    """A loopback TCP port that nobody listens on at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _accepts(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
