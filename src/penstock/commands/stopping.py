"""The way out: the first SIGINT or SIGTERM asks gently, the second ends at once what is still at it.

Owns the count over everything that ends one after the other: the server first, then what runs beside it. Owns also how
a program counts its signals whose main thread may be in one long call.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Final

from penstock.logs import get_logger

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_INTERRUPT: Final = signal.SIGUSR1
"""Ends a wait of the main thread, as no flag would. Not one of those that are counted."""


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


def hear_each_signal(is_too_many: Callable[[], bool]) -> None:
    """Ask in a thread of its own about each signal, for the rest of the process; one too many interrupts this thread.

    Python's own handlers run in the main thread, between two of its steps. While that is in a call of a library, which
    takes as long as it takes, signals of one number become one call of their handler. The bytes that are written as
    they arrive are not lost.
    """
    main_thread = threading.get_ident()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def listen() -> None:
        while True:
            for number in os.read(reading, 16):
                if number in SIGNALS and is_too_many():
                    signal.pthread_kill(main_thread, _INTERRUPT)

    signal.signal(_INTERRUPT, signal.default_int_handler)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    threading.Thread(target=listen, name="signals", daemon=True).start()
