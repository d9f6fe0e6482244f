"""Processes that decode pictures: started when a worker asks, gone when it asks again, or is gone itself."""

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator

from penstock.serve.supervisor.decoders import Decoders
from tests.serve.fakes import FakeLoop

WAITS = (sys.executable, "-c", "import socket, sys; socket.socket(fileno=int(sys.argv[1])).recv(1)")
DEADLINE_S = 10.0
ENDS = (sys.executable, "-c", "pass")


class Stage:
    """The decoders of workers, whose ends of the sockets are kept."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.loop = FakeLoop()
        self.given: list[tuple[int, socket.socket | None]] = []
        self.decoders = Decoders(self.loop, os.getpid(), lambda *given: self.given.append(given), command)

    def start(self, worker: int) -> int:
        """The process that it is given at once."""
        before = set(self.decoders.pids)
        self.decoders.start(worker)
        self.loop.settle()
        (pid,) = set(self.decoders.pids) - before
        return pid

    def is_gone(self, pid: int) -> bool:
        """Whether a process was ended and waited for, once it is."""
        return self._looks_until(lambda: not _exists(pid))

    def leave(self) -> None:
        """The server ends."""
        self.decoders.close()
        assert self._looks_until(lambda: not self.decoders._ending)
        for _, sock in self.given:
            if sock is not None:
                sock.close()

    def _looks_until(self, is_so: Callable[[], bool]) -> bool:
        """Looking after them again and again, as the supervisor does."""
        give_up_at = time.monotonic() + DEADLINE_S
        while not is_so() and time.monotonic() < give_up_at:
            self.decoders.tick()
            time.sleep(0.02)
        return is_so()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def stage(command: tuple[str, ...] = WAITS) -> Iterator[Stage]:
    on = Stage(command)
    try:
        yield on
    finally:
        on.leave()


def test_each_worker_has_one_of_its_own() -> None:
    with stage() as on:
        first, second = on.start(1), on.start(2)
        assert first != second
        assert [worker for worker, sock in on.given if sock is not None] == [1, 2]


def test_who_asks_again_has_the_one_before_killed_though_it_stands_still() -> None:
    with stage() as on:
        first = on.start(1)
        os.kill(first, signal.SIGSTOP)
        second = on.start(1)
        assert second != first
        assert on.is_gone(first)


def test_one_whose_worker_hangs_up_is_waited_for() -> None:
    with stage() as on:
        pid = on.start(1)
        (_, sock) = on.given[0]
        assert sock is not None
        sock.close()
        assert on.is_gone(pid)
        assert on.decoders.pids == []


def test_one_whose_worker_is_lost_is_killed() -> None:
    with stage() as on:
        pid, other = on.start(1), on.start(2)
        on.decoders.worker_lost(1)
        assert on.is_gone(pid)
        assert on.decoders.pids == [other]


def test_one_that_keeps_ending_is_started_later_and_later() -> None:
    with stage(ENDS) as on:
        for _ in range(3):
            on.decoders.start(1)
            on.decoders.start(1)
            on.loop.settle()
        assert len(on.given) == 2
        on.loop.advance(0.5)
        assert len(on.given) == 3
        on.decoders.start(1)
        on.loop.advance(0.9)
        assert len(on.given) == 3
        on.loop.advance(0.2)
        assert len(on.given) == 4


def test_a_worker_that_is_lost_meanwhile_is_given_none() -> None:
    with stage(ENDS) as on:
        for _ in range(3):
            on.decoders.start(1)
            on.loop.settle()
        on.decoders.worker_lost(1)
        on.loop.advance(20)
        assert len(on.given) == 2


def test_all_are_gone_with_the_server() -> None:
    with stage() as on:
        pids = [on.start(worker) for worker in (1, 2, 3)]
        on.decoders.close()
        assert all(map(on.is_gone, pids))
        on.decoders.start(1)
        on.loop.advance(1)
        assert on.decoders.pids == []


def test_where_there_is_no_such_program_the_worker_is_told() -> None:
    with stage(("/nowhere/python",)) as on:
        on.decoders.start(1)
        on.loop.settle()
        assert on.given == [(1, None)]
