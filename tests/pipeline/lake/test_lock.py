"""One writer at a time, with real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.errors import LakeBusy
from penstock.pipeline.lake.lock import lake_lock
from penstock.pipeline.lake.storage import Storage

HOLD = """
import sys, time
from penstock.pipeline.lake.lock import lake_lock
from penstock.pipeline.lake.storage import Storage
with lake_lock(Storage(sys.argv[1]), "pipeline run"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def other_writer(lake: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lake)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_second_writer_hears_who_the_first_is_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with other_writer(lake) as holder:
        with pytest.raises(LakeBusy) as refused, lake_lock(Storage(lake), "pipeline erase"):
            pytest.fail("two writers")
        assert f"pipeline run (process {holder.pid} on {os.uname().nodename} since 20" in str(refused.value)
        assert str(lake) in str(refused.value)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with lake_lock(Storage(lake), "pipeline erase"):
            pass


def test_a_writer_that_waits_gets_the_lock_when_it_is_free(tmp_path: Path) -> None:
    order = []

    def hold() -> None:
        with lake_lock(Storage(tmp_path), "first"):
            is_held.set()
            time.sleep(0.3)
            order.append("first is done")

    is_held = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(10)
    with lake_lock(Storage(tmp_path), "second", wait_s=10):
        order.append("second has it")
    thread.join()
    assert order == ["first is done", "second has it"]


def test_waiting_ends(tmp_path: Path) -> None:
    with (
        lake_lock(Storage(tmp_path), "first"),
        pytest.raises(LakeBusy, match="written by first"),
        lake_lock(Storage(tmp_path), "second", wait_s=0.1),
    ):
        pytest.fail("two writers")


def test_a_lock_is_given_back_when_its_holder_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lake_lock(Storage(tmp_path), "first"):
        raise ZeroDivisionError
    with lake_lock(Storage(tmp_path), "second"):
        pass
