"""The servers that are measured side by side: their command lines and configurations, in one table.

Owns start and stop of one server on a free loopback port, with a folder of its own. Each is started anew, so that
memory is that of the run in hand, and may be several processes: whoever measures takes its pid and all below it. A
server that is not installed is left out by the caller: `is_installed` says so.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.nginx_rtmp import MODULE_PATHS
from tests.support.processes import ProgramMissing, RunningProgram, find_program, free_port, running

from bench.usage import command_line, with_descendants

START_DEADLINE_S = 15.0
READY_LOOK_S = 0.05
WORKER_MODULE = "penstock.serve.worker"
PENSTOCK = Path(sys.executable).with_name("penstock")
PUMP_ROUND_METRIC = "penstock_pump_round_seconds"

NGINX_CONFIG = """\
load_module {module_path};
daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {folder}/nginx.pid;
error_log {folder}/error.log error;
events {{ worker_connections 8192; }}
rtmp {{
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        chunk_size 4096;
        application live {{ live on; }}
    }}
}}
"""

PENSTOCK_QUIET = """\
[defaults]
flush = "{flush}"
[facts]
enabled = false
[logs]
level = "warning"
"""
PENSTOCK_WITHOUT_RING = f"[server]\nio_uring = false\n{PENSTOCK_QUIET}"
PENSTOCK_ALL_ON = """\
[defaults]
flush = "{flush}"
[facts]
enabled = true
[logs]
level = "info"
format = "json"
"""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One row of the table: a server in one configuration, or the floor at one flush policy.

    `floor` is the row of the floor that sends as often, None if how often follows the load; `flush` is how this row
    sends, where it can be told. `one_worker` is the row of the same server with one worker, where there are more.
    """

    name: str
    program: str
    floor: str | None = None
    flush: str = "auto"
    by: str = "sendfile"
    config: str = ""
    record: str = "none"
    workers: int = 1
    one_worker: str | None = None


CONTESTANTS = {
    each.name: each
    for each in (
        Contestant("nginx", "nginx", floor="floor message", config=NGINX_CONFIG),
        Contestant("penstock", "penstock", config=PENSTOCK_QUIET),
        Contestant("penstock 2 workers", "penstock", config=PENSTOCK_QUIET, workers=2, one_worker="penstock"),
        Contestant("penstock frame", "penstock", floor="floor frame", flush="frame", config=PENSTOCK_QUIET),
        Contestant(
            "penstock frame 2 workers",
            "penstock",
            floor="floor frame",
            flush="frame",
            config=PENSTOCK_QUIET,
            workers=2,
            one_worker="penstock frame",
        ),
        Contestant(
            "penstock frame, no ring", "penstock", floor="floor frame", flush="frame", config=PENSTOCK_WITHOUT_RING
        ),
        Contestant("penstock 50 ms", "penstock", floor="floor 50 ms", flush="50ms", config=PENSTOCK_QUIET),
        Contestant("penstock 100 ms", "penstock", floor="floor 100 ms", flush="100ms", config=PENSTOCK_QUIET),
        Contestant("penstock all on", "penstock", config=PENSTOCK_ALL_ON, record="all"),
        # Each by the cheaper call: sendfile pays off from about 16 kB.
        Contestant("floor message", "floor", flush="message", by="write"),
        Contestant("floor frame", "floor", flush="frame"),
        Contestant("floor 50 ms", "floor", flush="50"),
        Contestant("floor 100 ms", "floor", flush="100"),
    )
}


@dataclass(frozen=True, slots=True)
class RunningServer:
    port: int
    program: RunningProgram
    metrics_url: str | None

    @property
    def pid(self) -> int:
        """Of the process that was started; there may be others below it."""
        return self.program.pid

    @property
    def worker_pids(self) -> list[int]:
        """Of the processes that serve media, where the server has them apart."""
        return [pid for pid in with_descendants(self.pid) if WORKER_MODULE in command_line(pid)]


def command_of(contestant: Contestant, folder: Path, port: int, http_port: int) -> list[str]:
    """The command line; its configuration file is written into the folder first."""
    config_path = folder / "config"
    if contestant.program == "nginx":
        config = contestant.config.format(module_path=_nginx_module(), folder=folder, port=port)
        command = [find_program("nginx", "nginx-light"), "-e", f"{folder}/error.log", "-p", f"{folder}"]
        command += ["-c", f"{config_path}"]
    else:
        config = contestant.config.format(flush=contestant.flush)
        command = [str(PENSTOCK), "serve", "--config", f"{config_path}", "--rtmp", f"127.0.0.1:{port}"]
        command += ["--http", f"127.0.0.1:{http_port}", "--data", f"{folder}/data", "--record", contestant.record]
        command += ["--workers", f"{contestant.workers}"]
    config_path.write_text(config, encoding="utf-8")
    return command


@cache
def is_installed(program: str) -> bool:
    """Whether rows of this program can be run here."""
    if program == "nginx":
        try:
            find_program("nginx", "nginx-light")
        except ProgramMissing:
            return False
        return any(path.exists() for path in MODULE_PATHS)
    if program == "penstock":
        if not PENSTOCK.exists():
            return False
        return subprocess.run([str(PENSTOCK), "serve", "--help"], capture_output=True, check=False).returncode == 0
    return True


@contextmanager
def serving(contestant: Contestant, cpu: int | None) -> Iterator[RunningServer]:
    """Run a server for the length of the block, on one core if it is named."""
    port, http_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        with ExitStack() as stack:
            with _on_core(cpu):
                command = command_of(contestant, folder, port, http_port)
                program = stack.enter_context(running(command, folder / "output.log"))
            program.wait_for_port(port, START_DEADLINE_S)
            metrics_url = None
            if contestant.program == "penstock":
                # Its port accepts before its workers are there.
                _wait_until_ready(program, f"http://127.0.0.1:{http_port}/readyz")
                metrics_url = f"http://127.0.0.1:{http_port}/metrics"
            # The first connection above opens modules and buffers; none of it belongs to the load.
            time.sleep(0.3)
            yield RunningServer(port, program, metrics_url)


@contextmanager
def _on_core(cpu: int | None) -> Iterator[None]:
    """Whatever is started in the block runs on this core, with all that it starts itself, however soon."""
    if cpu is None:
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _wait_until_ready(program: RunningProgram, url: str) -> None:
    give_up_at = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < give_up_at:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(READY_LOOK_S)
    raise program.failure(f"not ready within {START_DEADLINE_S:g} s")


def pump_rounds(metrics_url: str | None) -> dict[float, int]:
    """Pump rounds so far by upper bound in seconds, cumulative; empty where the server does not tell."""
    if metrics_url is None:
        return {}
    try:
        with urllib.request.urlopen(metrics_url, timeout=2) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    pattern = rf'^{PUMP_ROUND_METRIC}_bucket{{[^}}]*le="([^"]+)"[^}}]*}} (\S+)$'
    return {float(bound): int(float(rounds)) for bound, rounds in re.findall(pattern, text, re.MULTILINE)}


def pump_p99_ms(before: dict[float, int], after: dict[float, int]) -> float | None:
    """The smallest bound in ms that 99 % of the rounds between the two readings kept."""
    rounds = {bound: after[bound] - before.get(bound, 0) for bound in sorted(after)}
    total = max(rounds.values(), default=0)
    if total == 0:
        return None
    return next(bound for bound, kept in rounds.items() if kept >= 0.99 * total) * 1000


def pump_rounds_per_s(before: dict[float, int], after: dict[float, int], seconds: float, workers: int) -> float | None:
    """Of a worker, the mean over all of them; None where the server does not tell."""
    if not after or seconds == 0:
        return None
    return (max(after.values()) - max(before.values(), default=0)) / seconds / workers


def _nginx_module() -> Path:
    return next(path for path in MODULE_PATHS if path.exists())
