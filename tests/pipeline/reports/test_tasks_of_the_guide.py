"""The commands of "Ask the tables" in the guide, run as they stand in the folder above a data folder.

`sql` and `report` are run here, in the session of the tests; `run` by the notebook, in `tests/test_examples.py`.
"""

import re
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.cli import main
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.queries.spark_runner import SparkQueryRunner
from penstock.pipeline.queries.sql_service import SqlService
from tests.pipeline.queries.ready_backend import ReadyBackend
from tests.pipeline.reports.test_guide import put_day

REPOSITORY = Path(__file__).parents[3]
GUIDE = REPOSITORY / "docs" / "18-guide.md"
NOTEBOOK = REPOSITORY / "examples" / "ask-the-tables.ipynb"


def commands() -> list[list[str]]:
    section = GUIDE.read_text(encoding="utf-8").split("\n## Ask the tables\n")[1]
    lines = section.split("```sh\n")[1].split("```")[0].splitlines()
    found = [shlex.split(line) for line in lines]
    assert {words[0] for words in found} == {"penstock"}
    return [words[1:] for words in found]


def test_run_is_what_the_notebook_does_and_the_folder_is_in_its_first_cell() -> None:
    run, _, _ = commands()
    assert run == ["pipeline", "run"]
    notebook = NOTEBOOK.read_text(encoding="utf-8")
    assert '\\"lake\\": [\\"run\\"]' in notebook
    assert 'DATA = \\"' in notebook


def test_sql_and_report_answer_from_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, sql, report = commands()
    data = tmp_path / "data"
    put_day(data / "lake")
    monkeypatch.chdir(tmp_path)
    runner = SparkQueryRunner(spark, Lake(Storage(data / "lake")))
    with SqlService(ReadyBackend(runner), data):
        assert main(sql) == 0
    printed = capsys.readouterr().out
    assert "most" in printed
    rows = [re.findall(r"\w+", line) for line in printed.splitlines()]
    assert [row for row in rows if row and row[0] in ("stage", "jazz")] == [["stage", "9"], ["jazz", "2"]]
    assert main(report) == 0
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")[:200]
