"""The way out: the first SIGINT or SIGTERM asks gently, the second ends at once what is still at it.

Owns the count over everything that ends one after the other: the server first, then what runs beside it.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Final

from penstock.serve.logs import get_logger

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stops:
    """How often an end was asked for."""

    def __init__(self) -> None:
        self.is_at_once = threading.Event()
        """Set when nothing is to be waited for any more."""
        self._asked = 0

    def ask(self) -> None:
        """The server heard a signal, and says so itself."""
        self._asked += 1
        if self._asked > 1:
            self.is_at_once.set()

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Hear signals while something else than the server ends: it was asked before, so the next is the second."""

        def hear(*_: object) -> None:
            if not self.is_at_once.is_set():
                get_logger().warning("stopping at once")
                self.is_at_once.set()

        before = {number: signal.signal(number, hear) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait_for(self, is_done: Callable[[float], bool], timeout_s: float, look_every_s: float = 0.1) -> bool:
        """Whether something was done, and neither took too long nor is to end at once.

        `is_done` waits for so many seconds at most and says whether it is.
        """
        for _ in range(max(1, round(timeout_s / look_every_s))):
            if is_done(0.0 if self.is_at_once.is_set() else look_every_s):
                return True
            if self.is_at_once.is_set():
                return False
        return False
