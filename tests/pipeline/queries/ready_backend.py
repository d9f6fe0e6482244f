"""A pipeline that is always ready, for tests of the socket alone."""

import contextlib
from collections.abc import Iterator

from penstock.pipeline.queries.answers import QueryRunner
from penstock.pipeline.queries.sql_service import Notify


class ReadyBackend:
    """Has a session, and tables that are as fresh as they will get: it says that they lack something."""

    def __init__(self, runner: QueryRunner) -> None:
        self._runner = runner
        self.refreshed = 0

    def refresh(self, notify: Notify) -> None:
        self.refreshed += 1
        notify("the tables are a little old")

    @contextlib.contextmanager
    def session(self, notify: Notify) -> Iterator[QueryRunner]:
        yield self._runner
