"""What operators ask over HTTP: whether the server is alive, whether it takes connections, and its figures.

Owns the answers and the way to them: the loop of the media path is asked by a call that it makes when it comes round,
and is given up after a while. However often figures are asked for, they are taken at most once a second. Those of a
pipeline on this machine are read from the file that it leaves, in another thread, since disks may hang.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from prometheus_client import CONTENT_TYPE_LATEST

from penstock.pipeline_figures import FILE_NAME, MAX_BYTES, PipelineFigures
from penstock.serve.http.server import Handler, Response
from penstock.serve.reactor import Reactor
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.flusher import Flusher
from penstock.serve.telemetry.metrics import Exposition, Figures, MetricsObserver

Answer = TypeVar("Answer")

_LOOP_ANSWERS_WITHIN_S = 2.0
_FIGURES_KEPT_S = 1.0
_DISK_ANSWERS_WITHIN_S = 1.0


class OperatorRoutes:
    """Answers in the HTTP thread about a server that lives in another."""

    def __init__(
        self,
        reactor: Reactor,
        broker: Broker,
        flusher: Flusher,
        metrics: MetricsObserver,
        data_dir: Path | None = None,
    ) -> None:
        """`data_dir` is where a pipeline leaves its figures."""
        self._reactor = reactor
        self._broker = broker
        self._flusher = flusher
        self._metrics = metrics
        self._data_dir = data_dir
        self._exposition = Exposition()
        self._rendering = asyncio.Lock()
        self._rendered = b""
        self._rendered_until = 0.0

    def routes(self) -> dict[str, Handler]:
        """Paths and who answers them."""
        return {"/healthz": self.healthz, "/readyz": self.readyz, "/metrics": self.metrics}

    async def healthz(self) -> Response:
        """Alive: the loop of the media path comes round."""
        try:
            await self._ask_loop(self._tell_closing)
        except TimeoutError:
            return _NO_ANSWER
        return Response(HTTPStatus.OK, b"ok\n")

    async def readyz(self) -> Response:
        """Ready: it also takes new connections."""
        try:
            is_closing = await self._ask_loop(self._tell_closing)
        except TimeoutError:
            return _NO_ANSWER
        if is_closing:
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, b"shutting down\n")
        return Response(HTTPStatus.OK, b"ready\n")

    async def metrics(self) -> Response:
        """Figures for Prometheus."""
        async with self._rendering:
            now = asyncio.get_running_loop().time()
            if now >= self._rendered_until:
                try:
                    figures = await self._ask_loop(self._tell_figures)
                except TimeoutError:
                    return _NO_ANSWER
                self._rendered = self._exposition.render(figures, await self._pipeline_figures())
                self._rendered_until = now + _FIGURES_KEPT_S
        return Response(HTTPStatus.OK, self._rendered, CONTENT_TYPE_LATEST)

    async def _pipeline_figures(self) -> PipelineFigures | None:
        if self._data_dir is None:
            return None
        reading = asyncio.to_thread(read_pipeline_figures, self._data_dir)
        try:
            return await asyncio.wait_for(reading, _DISK_ANSWERS_WITHIN_S)
        except TimeoutError:
            return None

    async def _ask_loop(self, question: Callable[[Callable[[Answer], None]], None]) -> Answer:
        answer: Future[Answer] = Future()

        def done(value: Answer) -> None:
            # Whoever asked may have given up.
            if answer.set_running_or_notify_cancel():
                answer.set_result(value)

        self._reactor.call_from_thread(lambda: question(done))
        return await asyncio.wait_for(asyncio.wrap_future(answer), _LOOP_ANSWERS_WITHIN_S)

    # Questions, answered on the loop of the media path.

    def _tell_closing(self, done: Callable[[bool], None]) -> None:
        done(self._broker.is_closing)

    def _tell_figures(self, done: Callable[[Figures], None]) -> None:
        self._metrics.take(self._broker, self._flusher, done)


def read_pipeline_figures(data_dir: Path) -> PipelineFigures | None:
    """What the pipeline of a data folder tells of itself; None: nothing that can be read."""
    try:
        with (data_dir / FILE_NAME).open("rb") as file:
            return PipelineFigures.of_json(file.read(MAX_BYTES))
    except OSError:
        return None


_NO_ANSWER = Response(HTTPStatus.SERVICE_UNAVAILABLE, b"the media loop does not answer\n")
