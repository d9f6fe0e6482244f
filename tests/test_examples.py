"""The notebook in examples/ runs as it stands, from landed facts to its last answer."""

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from penstock.pipeline.engine.java import cache_folder, find_java, launcher_home
from penstock.pipeline.simulator import Platform, write_landing

NOTEBOOK = Path(__file__).parents[1] / "examples" / "ask-the-tables.ipynb"
PLOTLY = "application/vnd.plotly.v1+json"


def stored() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """The notebook after all its cells ran, with the Java that our own sessions would find."""
    variables = {"JAVA_HOME": str(launcher_home(find_java(), cache_folder())), "SPARK_LOCAL_IP": "127.0.0.1"}
    folder = tmp_path_factory.mktemp("notebook")
    # Two hours in place of the day that it would simulate.
    write_landing(Platform(viewers=60, first_hour=19, hours=2, landing_s=600), folder / "simulated-day" / "facts")
    client = NotebookClient(stored(), timeout=600, resources={"metadata": {"path": str(folder)}})
    return client.execute(env={**os.environ, **variables})


def answers(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """What cells show, by type."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output.data for output in outputs if output.output_type in ("execute_result", "display_data")]


def test_every_question_is_answered(run: nbformat.NotebookNode) -> None:
    tables = [answer["text/plain"] for answer in answers(run) if PLOTLY not in answer]
    assert len(tables) == 5
    _, startup, health, incidents, bill = tables
    assert "p95_ms" in startup
    assert "unhealthy_minutes" in health
    assert "ingest_stalled" in incidents
    assert "live" in bill


def test_the_charts_have_curves(run: nbformat.NotebookNode) -> None:
    audience, lag = [answer[PLOTLY] for answer in answers(run) if PLOTLY in answer]
    assert len(audience["data"]) == 5
    assert [curve["name"] for curve in lag["data"]] == ["lag", "skipped ahead"]
    assert len(lag["data"][0]["x"]) > 1


def test_the_notebook_is_kept_without_answers_of_anybodys_data() -> None:
    cells = [cell for cell in stored().cells if cell.cell_type == "code"]
    assert [cell for cell in cells if cell.outputs or cell.execution_count] == []
