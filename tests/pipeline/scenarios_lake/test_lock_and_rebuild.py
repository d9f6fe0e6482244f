"""Who may write when, and what a rebuild refuses, by the command line."""

import json
import os
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.cli import main
from penstock.pipeline.ingest.horizon import raise_horizon
from penstock.pipeline.lake.lock import lake_lock
from penstock.pipeline.lake.state import State, StateTable
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.queries.spark_runner import SparkQueryRunner
from penstock.pipeline.queries.sql_service import SqlService
from tests.pipeline.queries.ready_backend import ReadyBackend

WRITERS = [["run"], ["rebuild"], ["archive"], ["erase", "--viewer", "alice"]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def penstock(data: Path, *words: str) -> int:
    return main(["pipeline", *words, "--data", str(data)])


@pytest.mark.parametrize("words", WRITERS, ids=lambda words: words[0])
def test_a_second_writer_ends_with_75_and_says_who_the_first_is(
    data: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with lake_lock(Storage(data / "lake"), "pipeline erase"):
        assert penstock(data, *words) == 75
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"penstock: the lake {data}/lake is being written by pipeline erase (process {os.getpid()} on"
    )


def test_a_writer_waits_as_long_as_it_is_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with lake_lock(Storage(data / "lake"), "pipeline run"):
            is_held.set()
            is_over.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(30)
    assert penstock(data, "rebuild", "--wait", "200ms") == 75
    threading.Timer(0.3, is_over.set).start()
    # It gets the lock, and has nothing to do.
    assert penstock(data, "rebuild", "--wait", "30s") == 1
    assert capsys.readouterr().err.splitlines()[-1] == "penstock: rebuild: there are no facts in bronze"
    holder.join()


def test_questions_need_no_lock(spark: SparkSession, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service = SqlService(ReadyBackend(SparkQueryRunner(spark)), data)
    try:
        with lake_lock(Storage(data / "lake"), "pipeline run"):
            assert penstock(data, "sql", "SELECT 1 AS one", "--format", "json") == 0
            assert json.loads(capsys.readouterr().out) == [{"one": 1}]
            assert penstock(data, "report", "--format", "json") == 0
            assert json.loads(capsys.readouterr().out)
    finally:
        service.close()


def test_a_rebuild_of_days_that_bronze_has_given_up_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = Storage(data / "lake")
    hours = frozenset(f"{day}T23" for day in ("2026-11-13", "2026-11-14"))
    StateTable(storage).commit(State(fact_hours={"play_started": hours}))
    # Of the first of the two days only the end is left.
    raise_horizon(storage, "2026-11-13T12")
    refusals = {
        ("--from", "2026-11-12"): "2026-11-12 is past retention; bronze begins with 2026-11-14",
        ("--from", "2026-11-13"): "2026-11-13 is past retention; bronze begins with 2026-11-14",
        ("--to", "2026-11-13"): "bronze has no facts of those days; it has 2026-11-14 to 2026-11-14",
    }
    for words, refusal in refusals.items():
        assert penstock(data, "rebuild", *words) == 1
        assert capsys.readouterr().err == f"penstock: rebuild: {refusal}\n"


def test_a_rebuild_of_a_table_that_no_run_computes_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert penstock(data, "rebuild", "--table", "gold.archive") == 1
    assert "gold.archive cannot be computed by itself: it is penstock pipeline archive" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["back\\slash", "per%41cent"])
def test_a_lake_whose_name_the_tables_cannot_have_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).mkdir()
    assert penstock(tmp_path / name, "status") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("needs a name without backslashes and without %-codes like %41")
