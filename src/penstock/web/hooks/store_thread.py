"""The thread in which messages meet the disk, so that a slow one holds up no answer."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from penstock.logs import get_logger
from penstock.web.hooks.store import Store

_AGAIN_S: Final = 1.0

Result = TypeVar("Result")


class StoreThread:
    """A store, opened and used by one thread, call by call in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._executor = ThreadPoolExecutor(1, "penstock-hooks")
        self._store: Store | None = None

    async def run(self, work: Callable[[Store], Result]) -> Result:
        """What the store makes of it. Errors of sqlite3 and of the disk are raised here."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._work, work)

    async def insist(self, work: Callable[[Store], Result]) -> Result:
        """The same, again and again until the disk does it."""
        while True:
            try:
                return await self.run(work)
            except (sqlite3.Error, OSError) as error:
                get_logger().error("webhook messages cannot be kept", reason=str(error))
                await asyncio.sleep(_AGAIN_S)

    async def close(self) -> None:
        """After everything that was asked for."""

        def close() -> None:
            if self._store is not None:
                self._store.close()

        await asyncio.get_running_loop().run_in_executor(self._executor, close)
        self._executor.shutdown(wait=False)

    def _work(self, work: Callable[[Store], Result]) -> Result:
        if self._store is None:
            self._store = Store(self._folder)
            if self._store.moved_to is not None:
                get_logger().error("webhook messages cannot be read", moved_to=str(self._store.moved_to))
        return work(self._store)
