"""A run that is stopped by a signal: one line, a status of its own, and no Java left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.commands.pipeline import INTERRUPTED

DEADLINE_S = 60.0


def penstock(*words: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "pipeline", *words]


def javas_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in children if Path(f"/proc/{child}/comm").read_text(encoding="ascii") == "java\n"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    subprocess.run(penstock("simulate", "--viewers", "20", "--data", str(folder)), check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_says_so_in_one_line(data: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        penstock("run", "--data", str(data)),
        stderr=subprocess.PIPE,
        text=True,
        # As from a terminal, where Java is in the same group.
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not any((data / "checkpoints").glob("landing/offsets/*")):
            assert time.monotonic() < deadline, "no batch was begun"
            time.sleep(0.05)
        (java,) = javas_of(process.pid)
        time.sleep(0.5)
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, said = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()

    assert said == ("penstock: pipeline run: stopped; what was committed stays, the next run does the rest\n")
    assert process.returncode == INTERRUPTED
    assert not Path(f"/proc/{java}").exists()
