"""The process of the pipeline beside a server: started again when it ends, and ended gently or at once."""

import io
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import logs
from penstock.commands.pipeline_child import Backoff, ChildTimes, PipelineChild
from penstock.commands.stopping import Stops
from penstock.logs import configure_logs
from tests.serve.live_server import wait_until

QUICK = ChildTimes(look_every_s=0.02, first_retry_s=0.05, last_retry_s=0.1, at_once_s=1.0)
UNTIL_EOF = "import sys; sys.stdin.read()"
# Takes no notice of the end of its input; says when it is ready for signals.
STUBBORN = "import pathlib, signal, sys, time; {}pathlib.Path(sys.argv[-1]).touch(); time.sleep(60)"
DEAF = STUBBORN.format("signal.signal(signal.SIGTERM, signal.SIG_IGN); ")


class Lines:
    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._writer = configure_logs("info", "json", self._stream)

    def of(self, start: str) -> list[dict[str, Any]]:
        assert self._writer.flush(5)
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [line for line in lines if line["msg"].startswith(start)]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What is logged; logging is left as it was found."""
    level = logging.root.level
    yield Lines()
    if logs._current.writer is not None and logs._current.handler is not None:
        logs._current.writer.close()
        logging.root.removeHandler(logs._current.handler)
    logs._current.__init__()  # type: ignore[misc]
    logging.root.setLevel(level)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    path = tmp_path / "facts/date=2026-11-15/hour=12/edge-1-b1-1.jsonl"
    path.parent.mkdir(parents=True)
    path.touch()
    return tmp_path / "facts"


def child_of(
    landing: Path, program: str, stops: Stops | None = None, words: tuple[str, ...] = (), times: ChildTimes = QUICK
) -> PipelineChild:
    return PipelineChild(landing, words, stops or Stops(), times, program=(sys.executable, "-c", program))


def test_a_pipeline_that_keeps_ending_is_started_later_each_time() -> None:
    backoff = Backoff(ChildTimes(first_retry_s=30.0, last_retry_s=100.0, ran_well_s=600.0))
    assert [backoff.after(5.0) for _ in range(4)] == [30.0, 60.0, 100.0, 100.0]


def test_one_that_has_run_well_for_a_while_is_started_as_soon_as_the_first_time() -> None:
    backoff = Backoff(ChildTimes(first_retry_s=30.0, last_retry_s=100.0, ran_well_s=600.0))
    assert [backoff.after(ran_s) for ran_s in (5.0, 5.0, 600.0, 5.0)] == [30.0, 60.0, 30.0, 60.0]


def test_one_that_cannot_be_started_is_told_and_tried_again(landing: Path, lines: Lines) -> None:
    child = PipelineChild(landing, (), Stops(), QUICK, program=("/nonexistent/penstock",))
    child.start()
    wait_until(lambda: len(lines.of("the pipeline cannot be started and is tried again")) >= 3)
    child.stop()
    first, second, third, *_ = lines.of("the pipeline cannot be started")
    assert "No such file" in first["reason"]
    assert [line["in_seconds"] for line in (first, second, third)] == [0.05, 0.1, 0.1]


def test_one_that_ends_is_started_again(landing: Path, lines: Lines) -> None:
    child = child_of(landing, "raise SystemExit(3)")
    child.start()
    wait_until(lambda: len(lines.of("pipeline started")) >= 2)
    child.stop()
    assert lines.of("the pipeline ended and is started again")[0]["status"] == 3


def test_one_that_is_told_to_end_may_finish(landing: Path, lines: Lines) -> None:
    child = child_of(landing, UNTIL_EOF + "; import time; time.sleep(0.3)")
    child.start()
    wait_until(lambda: lines.of("pipeline started"))
    child.stop()
    assert [line for line in lines.of("") if line["level"] != "INFO"] == []


def ended_at_once(landing: Path, lines: Lines, program: str, ready: Path) -> float:
    """How long it takes to end a pipeline at once that would not end by itself."""
    stops = Stops()
    child = child_of(landing, program, stops, (str(ready),))
    child.start()
    wait_until(ready.exists)
    stops.ask()
    threading.Timer(0.2, stops.ask).start()
    began_at = time.monotonic()
    child.stop()
    (started,) = lines.of("pipeline started")
    assert not Path(f"/proc/{started['pid']}").exists()
    assert len(lines.of("the pipeline was not waited for")) == 1
    return time.monotonic() - began_at


def test_the_second_word_ends_it_at_once(landing: Path, lines: Lines, tmp_path: Path) -> None:
    assert ended_at_once(landing, lines, STUBBORN.format(""), tmp_path / "ready") < 10


def test_one_that_hears_no_signal_is_killed(landing: Path, lines: Lines, tmp_path: Path) -> None:
    assert 1.0 <= ended_at_once(landing, lines, DEAF, tmp_path / "ready") < 20


def test_one_that_takes_too_long_is_ended(landing: Path, lines: Lines, tmp_path: Path) -> None:
    child = child_of(landing, STUBBORN.format(""), None, (str(tmp_path / "ready"),), QUICK._replace(last_cycle_s=0.2))
    child.start()
    wait_until((tmp_path / "ready").exists)
    child.stop()
    assert len(lines.of("the pipeline takes too long to end")) == 1


def test_a_signal_while_something_ends_gently_is_the_second_and_is_told(lines: Lines) -> None:
    stops, before = Stops(), signal.getsignal(signal.SIGTERM)
    with stops.heard():
        assert not stops.wait_for(threading.Event().wait, timeout_s=0.05, look_every_s=0.01)
        assert not stops.is_at_once.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(stops.is_at_once.is_set)
        assert not stops.wait_for(lambda _wait_s: False, timeout_s=60.0)
    assert signal.getsignal(signal.SIGTERM) is before
    assert len(lines.of("stopping at once")) == 1


def test_of_signals_to_the_server_the_second_counts() -> None:
    stops = Stops()
    stops.ask()
    assert not stops.is_at_once.is_set()
    stops.ask()
    assert stops.is_at_once.is_set()
