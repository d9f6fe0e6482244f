"""The real server beside the tests: the command `penstock serve` as a process, with a port of its own.

Owns its start, its readiness and the verdict at the end: it must leave by SIGTERM with status 0, and neither a
traceback nor a line of level ERROR may be in its log.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import POLL_S, RunningProgram, running

DEADLINE_S = 30.0
STARTED = "server started"
STOPPED = "server stopped"


@dataclass(frozen=True, slots=True)
class PenstockServer:
    """A server that serves RTMP on 127.0.0.1:`port`."""

    program: RunningProgram
    port: int

    def url(self, name: str, app: str = "live") -> str:
        return f"rtmp://127.0.0.1:{self.port}/{app}/{name}"

    def log_lines(self) -> list[dict[str, object]]:
        return read_log_lines(self.program)

    def wait_for_line(self, start: str, deadline_s: float = DEADLINE_S) -> None:
        """Return once a line of the log has a message that starts like this."""
        give_up_at = time.monotonic() + deadline_s
        while not any(str(line["msg"]).startswith(start) for line in self.log_lines()):
            if time.monotonic() >= give_up_at:
                raise self.program.failure(f"no line {start!r} within {deadline_s} s")
            time.sleep(POLL_S)


@contextmanager
def penstock_server(work_dir: Path, options: Sequence[str] = (), config: str = "") -> Iterator[PenstockServer]:
    """Serve for the length of the block. `config` is the text of a configuration file."""
    config_path = work_dir / "penstock.toml"
    config_path.write_text(config, encoding="utf-8")
    places = ["--rtmp", "127.0.0.1:0", "--http", "none", "--data", str(work_dir / "data")]
    command = [sys.executable, "-m", "penstock", "serve", "--config", str(config_path), *places, *options]
    with running(command, work_dir / "server.log") as program:
        program.wait_for_log(STARTED, DEADLINE_S)
        (started,) = [line for line in read_log_lines(program) if line["msg"] == STARTED]
        yield PenstockServer(program, int(str(started["rtmp"]).rpartition(":")[2]))
        _judge(program)


def read_log_lines(program: RunningProgram) -> list[dict[str, object]]:
    """All whole lines; what is not JSON is a failure of the server."""
    lines = program.log_text().split("\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise program.failure(f"its log is not JSON lines: {error}") from error


def _judge(program: RunningProgram) -> None:
    status = program.stop()
    if status != 0:
        raise program.failure(f"left with status {status}")
    lines = read_log_lines(program)
    wrong = [line for line in lines if line["level"] == "ERROR" or "exception" in line]
    if wrong:
        raise program.failure(f"logged {wrong}")
    if lines[-1]["msg"] != STOPPED:
        raise program.failure(f"its last words are {lines[-1]}")
