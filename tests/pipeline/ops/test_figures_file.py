"""Figures of the pipeline over several runs, as their file tells them."""

import io
from pathlib import Path

import pytest

from penstock.errors import LakeBusy, PipelineError
from penstock.pipeline.lake.lock import lake_lock
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.ops.cycle import Cycles
from penstock.pipeline.ops.figures_file import FiguresFile
from penstock.pipeline.progress import LineProgress, RunFigures
from penstock.pipeline.settings import PipelineSettings
from penstock.pipeline_figures import FILE_NAME, PipelineFigures


def test_counts_go_on_over_runs_and_processes(tmp_path: Path) -> None:
    FiguresFile(Storage(tmp_path)).succeeded(RunFigures(2, 100, 1, 5, seconds=4.0, behind_s=9.0), 1000.0)
    FiguresFile(Storage(tmp_path)).failed()
    FiguresFile(Storage(tmp_path)).succeeded(RunFigures(1, 50, 2, 5, seconds=3.0, behind_s=-1.0), 2000.0)
    assert PipelineFigures.of_json((tmp_path / FILE_NAME).read_bytes()) == PipelineFigures(
        runs=2, failures=1, facts=150, quarantined=3, run_seconds=3.0, lag_seconds=0.0, succeeded_at=2000.0
    )
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"{")
    FiguresFile(Storage(tmp_path)).failed()
    assert FiguresFile(Storage(tmp_path)).read() == PipelineFigures(failures=1)


def test_a_file_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"no folder")
    FiguresFile(Storage(tmp_path / "data")).failed()
    assert FiguresFile(Storage(tmp_path / "data")).read() == PipelineFigures()


class Broken(LineProgress):
    def step(self, text: str) -> None:
        raise PipelineError("no Spark here")


def test_a_run_that_fails_is_counted_and_one_that_finds_another_writer_is_not(tmp_path: Path) -> None:
    data, lake, facts, recordings = (str(tmp_path / name) for name in ("", "lake", "facts", "recordings"))
    cycles = Cycles(PipelineSettings(data, lake, facts, recordings), Broken(io.StringIO(), is_json=False))
    with pytest.raises(PipelineError, match="no Spark here"):
        cycles.run_cycle()
    with lake_lock(Storage(lake), "pipeline rebuild"), pytest.raises(LakeBusy):
        cycles.run_cycle()
    assert FiguresFile(Storage(data)).read() == PipelineFigures(failures=1)
