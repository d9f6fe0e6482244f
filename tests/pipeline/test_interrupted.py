"""A run that is stopped by a signal: a line that says so, a status of its own, and no Java left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.commands.pipeline import INTERRUPTED
from tests.pipeline.conftest import FOR_SMALL_DATA
from tests.pipeline.landing_place import FOLDER, fact
from tests.support.processes import is_pending

DEADLINE_S = 240.0
QUICK = {**os.environ, "PENSTOCK_PIPELINE_SPARK": ",".join(map("=".join, FOR_SMALL_DATA.items()))}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    landing = tmp_path / "data/facts" / FOLDER
    landing.mkdir(parents=True)
    lines = [json.dumps(fact(1, "server_started")), json.dumps(fact(2, "play_started"))]
    (landing / "edge-1-b1-1.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "data"


def stopped(data: Path, number: signal.Signals, *words: str, times: int = 1) -> tuple[int, str]:
    """The status of a run that gets a signal while rows are on their way to tables, and what it says."""
    run = [sys.executable, "-m", "penstock", "pipeline", "run", "--data", str(data), *words]
    # As from a terminal, where Java is in the same group.
    process = subprocess.Popen(run, stderr=subprocess.PIPE, text=True, start_new_session=True, env=QUICK)
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not any((data / "lake/_staging").glob("*")):
            assert time.monotonic() < deadline, "nothing was written"
            time.sleep(0.05)
        (java,) = javas_of(process.pid)
        for _ in range(times):
            if number == signal.SIGINT:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            # Two that come together are one to the kernel.
            while is_pending(process.pid, number):
                time.sleep(0.01)
        _, said = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert not Path(f"/proc/{java}").exists()
    return process.returncode, said


def javas_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in children if Path(f"/proc/{child}/comm").read_text(encoding="ascii") == "java\n"]


def test_a_run_that_is_stopped_says_so_and_how_it_goes_on(data: Path) -> None:
    status, said = stopped(data, signal.SIGTERM)

    told = "penstock: pipeline run: stopped; what was committed stays, the next run does the rest"
    assert (status, said.splitlines()[-1]) == (INTERRUPTED, told)
    assert "Traceback" not in said


def test_runs_in_a_rhythm_end_with_the_cycle_that_they_are_in(data: Path) -> None:
    status, said = stopped(data, signal.SIGINT, "--every", "600s")

    assert (status, json.loads(said)["facts"]) == (0, 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_runs_in_a_rhythm_at_once(data: Path, number: signal.Signals) -> None:
    status, said = stopped(data, number, "--every", "600s", times=2)

    told = "pipeline: stopped at once; what was committed stays, the next run does the rest"
    assert (status, [json.loads(line)["msg"] for line in said.splitlines()]) == (INTERRUPTED, [told])
