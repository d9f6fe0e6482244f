"""What operators ask over HTTP: whether the server is alive, whether it takes connections, and its figures.

Owns the answers. They are told from what workers pushed, so no media loop is asked for them. However often figures are
asked for, they are rendered at most once a second. Those of a pipeline on this machine are read from the file that it
leaves, in another thread, since disks may hang.
"""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST

from penstock.pipeline_figures import FILE_NAME, MAX_BYTES, PipelineFigures
from penstock.web.board import Board
from penstock.web.live.figures import LiveFigures
from penstock.web.metrics import Exposition
from penstock.web.site import Answer, Handler

_RENDERED_FOR_S = 1.0
_DISK_ANSWERS_WITHIN_S = 1.0


def read_pipeline_figures(data_dir: Path) -> PipelineFigures | None:
    """What the pipeline of a data folder tells of itself; None: nothing that can be read."""
    try:
        with (data_dir / FILE_NAME).open("rb") as file:
            return PipelineFigures.of_json(file.read(MAX_BYTES))
    except OSError:
        return None


class OperatorRoutes:
    """Answers about a server that lives in other processes."""

    def __init__(
        self,
        board: Board,
        clock: Callable[[], float],
        data_dir: Path,
        *,
        look_at_streams: Callable[[], LiveFigures | None] = lambda: None,
        look_at_beacons: Callable[[], Mapping[str, int]] = dict,
        read_pipeline: Callable[[Path], PipelineFigures | None] = read_pipeline_figures,
    ) -> None:
        """`data_dir` is where a pipeline leaves its figures; `look_at_streams` tells those of single streams,
        `look_at_beacons` how many of players' beacons were dropped here, and why.
        """
        self._board = board
        self._clock = clock
        self._data_dir = data_dir
        self._look_at_streams = look_at_streams
        self._look_at_beacons = look_at_beacons
        self._read_pipeline = read_pipeline
        self._exposition = Exposition()
        self._rendering = asyncio.Lock()
        self._rendered = b""
        self._rendered_until = 0.0

    def routes(self) -> dict[str, Handler]:
        """Paths and who answers them."""
        return {"/healthz": self.healthz, "/readyz": self.readyz, "/metrics": self.metrics}

    async def healthz(self) -> Answer:
        """Alive: every worker's loop comes round."""
        return _yes_or_no(self._board.complaint(self._clock()), "ok")

    async def readyz(self) -> Answer:
        """Ready: the server takes new connections."""
        return _yes_or_no(self._board.refusal(self._clock()), "ready")

    async def metrics(self) -> Answer:
        """Figures for Prometheus."""
        async with self._rendering:
            now = self._clock()
            if now >= self._rendered_until:
                pipeline = await self._pipeline_figures()
                self._rendered = self._exposition.render(
                    self._board.server_figures(), pipeline, self._look_at_streams(), self._look_at_beacons()
                )
                self._rendered_until = now + _RENDERED_FOR_S
        return Answer(HTTPStatus.OK, self._rendered, CONTENT_TYPE_LATEST)

    async def _pipeline_figures(self) -> PipelineFigures | None:
        reading = asyncio.to_thread(self._read_pipeline, self._data_dir)
        try:
            return await asyncio.wait_for(reading, _DISK_ANSWERS_WITHIN_S)
        except TimeoutError:
            return None


def _yes_or_no(complaint: str | None, yes: str) -> Answer:
    if complaint is not None:
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{complaint}\n".encode())
    return Answer(HTTPStatus.OK, f"{yes}\n".encode())
