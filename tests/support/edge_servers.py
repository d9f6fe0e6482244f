"""An edge in front of an origin: the configuration of a pull, and an origin that a test may kill.

Owns no verdict about an origin that was killed; who stops one in order uses `penstock_server`.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.penstock_server import DEADLINE_S, STARTED
from tests.support.processes import RunningProgram, running


def pull_config(url: str, *, idle_s: float = 2.0, streams: str = "live/*", more: str = "") -> str:
    """An edge whose facts can be read soon. `more` goes into the section of the pull."""
    return f"""
[facts]
flush_s = 0.1
[defaults]
grace_s = 15
play_wait_s = 10
[[pull]]
streams = ["{streams}"]
url = "{url}"
idle_s = {idle_s}
{more}
"""


@contextmanager
def origin_process(work_dir: Path, port: int, name: str = "origin", config: str = "") -> Iterator[RunningProgram]:
    """A server on a port of the test's choice, which may be killed."""
    folder = work_dir / name
    folder.mkdir(exist_ok=True)
    config_path = folder / "penstock.toml"
    config_path.write_text(config, encoding="utf-8")
    command: Sequence[str] = (
        *(sys.executable, "-m", "penstock", "serve", "--config", str(config_path), "--http", "none"),
        *("--rtmp", f"127.0.0.1:{port}", "--data", str(folder / "data"), "--log-level", "info"),
    )
    with running(command, folder / "server.log") as program:
        program.wait_for_log(STARTED, DEADLINE_S)
        yield program
