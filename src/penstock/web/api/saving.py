"""Lists that orders change and files keep: saved behind each change, one write at a time, beside the event loop."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from penstock.web.api.problems import Problem


class Saving:
    """The file of one list."""

    def __init__(self, save: Callable[[], None]) -> None:
        """`save` writes the list, from another thread."""
        self._save = save
        self._writing = asyncio.Lock()

    async def save(self) -> None:
        """Keep the list. The change was told to workers already, so a disk that refuses does not take it back."""
        try:
            async with self._writing:
                await asyncio.to_thread(self._save)
        except OSError as error:
            raise Problem(
                HTTPStatus.INSUFFICIENT_STORAGE,
                f"It holds now, but is forgotten when the server ends: the list cannot be written ({error.strerror}).",
            ) from error
