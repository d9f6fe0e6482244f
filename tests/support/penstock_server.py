"""The real server beside the tests: the command `penstock serve` as a process, with a port of its own.

Owns its start, its readiness and the verdict at the end: it must leave by SIGTERM with status 0, and neither a
traceback nor a line of level ERROR may be in its log. It logs every message, so that a test can wait for what a client
has said instead of guessing how long that takes.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import POLL_S, RunningProgram, running

DEADLINE_S = 30.0
STARTED = "server started"
STOPPED = "server stopped"

LogLine = dict[str, object]


@dataclass(frozen=True, slots=True)
class PenstockServer:
    """A server that serves RTMP on 127.0.0.1:`port`."""

    program: RunningProgram
    port: int

    def url(self, name: str) -> str:
        return f"rtmp://127.0.0.1:{self.port}/live/{name}"

    def wait_for_play(self, name: str, plays: int = 1) -> None:
        """Return once so many have asked for a stream, whether or not it is there."""
        self._wait_for(f"play {plays} of {name}", lambda line: _asks_to_play(line, name), plays)

    def wait_for_line(self, start: str, lines: int = 1) -> LogLine:
        """The first line of the log whose message starts like this, once there are so many of them."""
        return self._wait_for(repr(start), lambda line: str(line["msg"]).startswith(start), lines)

    def _wait_for(self, waited_for: str, is_wanted: Callable[[LogLine], bool], number: int) -> LogLine:
        give_up_at = time.monotonic() + DEADLINE_S
        while True:
            wanted = [line for line in self.log_lines() if is_wanted(line)]
            if len(wanted) >= number:
                return wanted[0]
            if time.monotonic() >= give_up_at:
                raise self.program.failure(f"waited {DEADLINE_S} s for {waited_for}")
            time.sleep(POLL_S)

    def log_lines(self) -> list[LogLine]:
        return _log_lines(self.program)


@contextmanager
def penstock_server(
    work_dir: Path, options: Sequence[str] = (), config: str = "", launcher: Sequence[str] = ()
) -> Iterator[PenstockServer]:
    """Serve for the length of the block. `config` is the text of a configuration file; `options` have the last word.

    `launcher` is a command that runs the one it is given, such as prlimit.
    """
    config_path = work_dir / "penstock.toml"
    config_path.write_text(config, encoding="utf-8")
    places = ["--rtmp", "127.0.0.1:0", "--http", "none", "--data", str(work_dir / "data")]
    serve = [*launcher, sys.executable, "-m", "penstock", "serve", "--config", str(config_path), *places]
    with running([*serve, "--log-level", "debug", *options], work_dir / "server.log") as program:
        program.wait_for_log(STARTED, DEADLINE_S)
        # The log may have been read in the midst of that line.
        started = PenstockServer(program, 0).wait_for_line(STARTED)
        yield PenstockServer(program, int(str(started["rtmp"]).rpartition(":")[2]))
        _judge(program)


def _log_lines(program: RunningProgram) -> list[LogLine]:
    """All whole lines; what is not JSON is a failure of the server."""
    lines = program.log_text().split("\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise program.failure(f"its log is not JSON lines: {error}") from error


def _asks_to_play(line: LogLine, name: str) -> bool:
    payload = str(line.get("bytes", ""))
    return (
        line["msg"] == "Message received" and payload.startswith(_amf0_string("play")) and _amf0_string(name) in payload
    )


def _amf0_string(text: str) -> str:
    data = text.encode()
    return (b"\x02" + len(data).to_bytes(2, "big") + data).hex(" ")


def _judge(program: RunningProgram) -> None:
    status = program.stop()
    if status != 0:
        raise program.failure(f"left with status {status}")
    lines = _log_lines(program)
    wrong = [line for line in lines if line["level"] == "ERROR" or "exception" in line]
    if wrong:
        raise program.failure(f"logged {wrong}")
    if lines[-1]["msg"] != STOPPED:
        raise program.failure(f"its last words are {lines[-1]}")
