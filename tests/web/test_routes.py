"""Answers to operators, without sockets: figures are rendered once a second, and no disk holds them up."""

import asyncio
import threading
from pathlib import Path

import pytest

from penstock.control import messages
from penstock.pipeline_figures import FILE_NAME, PipelineFigures
from penstock.web import routes as routes_module
from penstock.web.board import Board
from penstock.web.routes import OperatorRoutes, read_pipeline_figures
from tests.web.test_metrics import of_pipeline, samples_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_figures_are_rendered_once_a_second_however_often_they_are_asked_for(tmp_path: Path) -> None:
    clock, board = Clock(), Board(1, 7)

    async def ask() -> list[float]:
        routes = OperatorRoutes(board, clock, tmp_path)
        seen = []
        for seconds in (0.0, 0.9, 0.2):
            clock.now += seconds
            seen.append(samples_of((await routes.metrics()).body)["penstock_viewers"])
            board.figures(messages.Figures(1, "b1", 50, {"viewers": 5}), clock.now)
        return seen

    assert asyncio.run(ask()) == [0, 0, 5]


def test_health_and_readiness_are_told_in_words(tmp_path: Path) -> None:
    clock, board = Clock(), Board(1, 7)

    async def ask() -> list[tuple[int, bytes]]:
        routes = OperatorRoutes(board, clock, tmp_path)
        answers = [await routes.healthz(), await routes.readyz()]
        return [(answer.status, answer.body) for answer in answers]

    assert asyncio.run(ask()) == [(503, b"worker 1 is missing\n"), (503, b"no worker is ready\n")]
    board.figures(messages.Figures(1, "b1", 50, {}), clock.now)
    assert asyncio.run(ask()) == [(200, b"ok\n"), (200, b"ready\n")]


def test_the_pipelines_file_is_read(tmp_path: Path) -> None:
    figures = PipelineFigures(7, 1, 600, 3, 4.5, 12.25, 1794000000.5)
    (tmp_path / FILE_NAME).write_bytes(figures.to_json())
    assert read_pipeline_figures(tmp_path) == figures


@pytest.mark.parametrize("data", [None, b"", b'{"runs": "many"}', b" " * 100_000 + b"{}"])
def test_without_a_good_file_of_the_pipeline_there_are_no_figures(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / FILE_NAME).write_bytes(data)
    assert read_pipeline_figures(tmp_path) is None


def test_a_disk_that_hangs_costs_the_figures_of_the_pipeline_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_module, "_DISK_ANSWERS_WITHIN_S", 0.05)
    is_over = threading.Event()

    def hang(_data_dir: Path) -> PipelineFigures:
        is_over.wait(10)
        return PipelineFigures()

    async def ask() -> dict[str, float]:
        answer = await OperatorRoutes(Board(1, 7), Clock(), tmp_path, read_pipeline=hang).metrics()
        is_over.set()
        return samples_of(answer.body)

    samples = asyncio.run(ask())
    assert of_pipeline(samples) == {}
    assert samples["penstock_viewers"] == 0
