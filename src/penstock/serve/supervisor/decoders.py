"""The processes that decode pictures, one at most for each worker, started when it asks.

Owns their lives: a worker that asks again has the one before killed, and so has one that is lost. A process that keeps
ending within seconds is started later and later. Started here and not by workers, since starting a process stands still
for milliseconds, and more on a busy machine; what they are asked goes between worker and process alone.
"""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable
from socket import socket, socketpair
from typing import Final

from penstock.logs import get_logger
from penstock.serve.reactor import Loop
from penstock.serve.supervisor.children import Backoff
from penstock.serve.supervisor.notify import own_environment

COMMAND: Final = (sys.executable, "-m", "penstock.serve.thumbnails.child")


class Decoders:
    """All of them."""

    def __init__(
        self,
        loop: Loop,
        pid: int,
        give: Callable[[int, socket | None], None],
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        """`pid` is this process, with which they end. `give`: hands a worker its end; None: none could be started."""
        self._loop = loop
        self._pid = pid
        self._give = give
        self._command = command
        self._living: dict[int, subprocess.Popen[bytes]] = {}
        self._ending: list[subprocess.Popen[bytes]] = []
        """Killed, and not waited for yet."""
        self._began_at: dict[int, float] = {}
        self._backoffs: dict[int, Backoff] = {}
        self._asked: set[int] = set()
        """Workers that wait for their next one."""
        self._is_closed = False

    @property
    def pids(self) -> list[int]:
        """Of those that live."""
        return [process.pid for process in self._living.values() if process.poll() is None]

    def start(self, worker: int) -> None:
        """A worker wants one; soon, if the last ones did not live for long."""
        self._kill(worker)
        if worker in self._asked:
            return
        self._asked.add(worker)
        delay_s = 0.0
        if worker in self._began_at:
            lived_s = self._loop.now - self._began_at[worker]
            delay_s = self._backoffs.setdefault(worker, Backoff()).delay_s(lived_s)
        self._loop.call_later(delay_s, lambda: self._begin(worker))

    def worker_lost(self, worker: int) -> None:
        """Nobody asks it any more."""
        self._asked.discard(worker)
        self._kill(worker)

    def tick(self) -> None:
        """Wait for those that have ended, without waiting."""
        self._ending = [process for process in self._ending if process.poll() is None]
        for worker, process in list(self._living.items()):
            if process.poll() is not None:
                del self._living[worker]

    def close(self) -> None:
        """Leave none behind."""
        self._is_closed = True
        for worker in list(self._living):
            self._kill(worker)

    def _begin(self, worker: int) -> None:
        if worker not in self._asked or self._is_closed:
            return
        self._asked.discard(worker)
        self._began_at[worker] = self._loop.now
        self._give(worker, self._spawned(worker))

    def _spawned(self, worker: int) -> socket | None:
        try:
            ours, theirs = socketpair()
        except OSError as error:
            get_logger().error("a decoder cannot be started", worker=worker, reason=error.strerror)
            return None
        try:
            self._living[worker] = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*self._command, str(theirs.fileno()), str(self._pid)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=own_environment(),
            )
        except OSError as error:
            ours.close()
            get_logger().error("a decoder cannot be started", worker=worker, reason=error.strerror)
            return None
        finally:
            theirs.close()
        return ours

    def _kill(self, worker: int) -> None:
        process = self._living.pop(worker, None)
        if process is None or process.poll() is not None:
            return
        # Popen knows whether the process is still ours to signal.
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        self._ending.append(process)
