"""New figures from a pipeline's socket: asked for once, however many ask, and whatever becomes of the pipeline."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import PipelineError
from penstock.pipeline.queries.answers import QueryRunner
from penstock.pipeline.queries.sql_service import Notify, SqlService
from penstock.pipeline_figures import SOCKET_NAME
from penstock.web.analytics.pipeline_link import NoPipeline, PipelineLink
from penstock.web.analytics.refresh import Refresh, RefreshState


class Backend:
    """A pipeline that waits to be let go on."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.asked = 0
        self.error: PipelineError | None = None
        self.notice: str | None = None

    def refresh(self, notify: Notify) -> None:
        self.asked += 1
        self.may_end.wait(10)
        if self.notice is not None:
            notify(self.notice)
        if self.error is not None:
            raise self.error

    @contextlib.contextmanager
    def session(self, notify: Notify) -> Iterator[QueryRunner]:
        raise PipelineError("not asked for")
        yield


async def settled(refresh: Refresh) -> None:
    async with asyncio.timeout(10):
        while refresh.status.state is RefreshState.RUNNING:
            await asyncio.sleep(0.01)


def test_many_who_ask_are_one_question_and_are_told_at_once(tmp_path: Path) -> None:
    backend = Backend()

    async def ask() -> None:
        refresh = Refresh(PipelineLink(tmp_path), lambda: 1000.0)
        assert refresh.status.state is RefreshState.NEVER
        first = await refresh.ask()
        second = await refresh.ask()
        assert first == second
        assert (first.state, first.asked_at, first.ended_at) == (RefreshState.RUNNING, 1000.0, None)
        backend.may_end.set()
        await settled(refresh)
        assert (refresh.status.state, refresh.status.ended_at) == (RefreshState.DONE, 1000.0)
        assert backend.asked == 1
        await refresh.ask()
        await settled(refresh)
        assert backend.asked == 2

    with SqlService(backend, tmp_path):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("notice", "error", "state", "words"),
    [
        ("the tables lack something", None, RefreshState.DONE, "the tables lack something"),
        ("a notice", PipelineError("Spark has not started"), RefreshState.FAILED, "Spark has not started"),
    ],
)
def test_the_pipeline_says_what_became_of_it(
    tmp_path: Path, notice: str, error: PipelineError | None, state: RefreshState, words: str
) -> None:
    backend = Backend()
    backend.notice, backend.error = notice, error
    backend.may_end.set()

    async def ask() -> None:
        refresh = Refresh(PipelineLink(tmp_path), lambda: 1000.0)
        await refresh.ask()
        await settled(refresh)
        assert refresh.status[:2] == (state, words)

    with SqlService(backend, tmp_path):
        asyncio.run(ask())


def test_without_a_pipeline_there_is_nobody_to_ask(tmp_path: Path) -> None:
    async def ask() -> None:
        link = PipelineLink(tmp_path)
        refresh = Refresh(link, lambda: 1000.0)
        assert not await link.is_there()
        with pytest.raises(NoPipeline):
            await refresh.ask()
        assert refresh.status.state is RefreshState.FAILED

    asyncio.run(ask())
    (tmp_path / SOCKET_NAME).write_text("left by somebody")
    asyncio.run(ask())


@pytest.mark.parametrize("answer", [b"", b"no JSON\n", b"x" * 100_000], ids=["none", "no JSON", "endless"])
def test_one_that_answers_nonsense_or_ends_has_failed(tmp_path: Path, answer: bytes) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / SOCKET_NAME))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(100)
            connection.sendall(answer)

    async def ask() -> None:
        refresh = Refresh(PipelineLink(tmp_path), lambda: 1000.0)
        await refresh.ask()
        await settled(refresh)
        assert refresh.status.state is RefreshState.FAILED

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        asyncio.run(ask())
        thread.join()


def test_one_that_never_answers_is_given_up(tmp_path: Path) -> None:
    backend = Backend()

    async def ask() -> None:
        refresh = Refresh(PipelineLink(tmp_path), lambda: 1000.0, within_s=0.2)
        await refresh.ask()
        await settled(refresh)
        assert refresh.status[:2] == (RefreshState.FAILED, "The pipeline did not answer within 0.2 s.")
        backend.may_end.set()

    with SqlService(backend, tmp_path):
        asyncio.run(ask())
