"""The decoder as its worker knows it: over a real link, with a process of the product or one that hangs."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from penstock.media.codecs import VideoCodec
from penstock.serve.reactor import Reactor
from penstock.serve.thumbnails.decoder import BUSY, LOST, MAX_WAITING, NOT_STARTED, Decoder, Patience
from penstock.serve.thumbnails.key_frames import KeyFrame
from tests.serve.thumbnails.pictures import recorded

DEADLINE_S = 30.0
GOOD = KeyFrame(0, VideoCodec.AVC, recorded("AVC").setup, recorded("AVC").key_frame)
BROKEN = KeyFrame(0, VideoCodec.HEVC, b"", b"\0" * 1000)


class Stage:
    """A decoder on a loop, and whoever starts its processes."""

    def __init__(self, patience: Patience | None = None) -> None:
        self.errors: list[BaseException] = []
        self.reactor = Reactor(self.errors.append)
        self.decoder = Decoder(self.reactor, self._start, patience)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.answers: list[tuple[str, Mapping[int, bytes], str]] = []
        self.stops_next = False
        """Whether the next process stands still from the beginning."""
        self.starts = True

    def _start(self) -> None:
        for process in self.processes:
            process.kill()
        if not self.starts:
            return
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "penstock.serve.thumbnails.child", str(theirs.fileno()), str(os.getpid())]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
        theirs.close()
        self.processes.append(process)
        if self.stops_next:
            self.stops_next = False
            process.send_signal(signal.SIGSTOP)
        self.decoder.take(ours)

    def ask(self, name: str, frame: KeyFrame | str = GOOD) -> None:
        self.decoder.ask(lambda: frame, lambda jpegs, complaint: self.answers.append((name, jpegs, complaint)))

    def run_until(self, is_reached: Callable[[], bool]) -> None:
        def look() -> None:
            if is_reached():
                self.reactor.stop()

        self.reactor.after_events = look
        late = self.reactor.call_later(DEADLINE_S, self.reactor.stop)
        self.reactor.run()
        late.cancel()
        assert is_reached(), self.answers
        assert not self.errors

    def answered(self, count: int) -> list[tuple[str, int, str]]:
        """Who was answered, how many JPEGs each was given, and what was said."""
        self.run_until(lambda: len(self.answers) >= count)
        return [(name, len(jpegs), complaint) for name, jpegs, complaint in self.answers]


@contextlib.contextmanager
def stage(patience: Patience | None = None) -> Iterator[Stage]:
    on = Stage(patience)
    try:
        yield on
    finally:
        on.decoder.close()
        on.reactor.close()
        for process in on.processes:
            process.kill()
            process.wait()


def test_nothing_is_started_until_somebody_asks_and_one_process_decodes_for_all() -> None:
    with stage() as on:
        assert not on.processes
        for name in "abc":
            on.ask(name)
        assert on.answered(3) == [("a", 3, ""), ("b", 3, ""), ("c", 3, "")]
        assert len(on.processes) == 1


def test_a_frame_that_is_none_costs_itself_alone() -> None:
    with stage() as on:
        on.ask("gone", "No key frame has come yet.")
        on.ask("broken", BROKEN)
        on.ask("good")
        gone, broken, good = on.answered(3)
        assert gone == ("gone", 0, "No key frame has come yet.")
        assert broken[:2] == ("broken", 0)
        assert broken[2] != ""
        assert good == ("good", 3, "")
        assert len(on.processes) == 1


def test_a_process_that_hangs_costs_the_picture_that_it_had() -> None:
    with stage(Patience(picture_s=0.3)) as on:
        on.stops_next = True
        on.ask("hangs")
        assert on.answered(1) == [("hangs", 0, LOST)]
        on.decoder._patience = Patience()
        on.ask("good")
        assert on.answered(2)[1] == ("good", 3, "")
        assert len(on.processes) == 2
        assert on.processes[0].wait(10) == -signal.SIGKILL


def test_a_process_that_dies_costs_the_picture_that_it_had() -> None:
    with stage() as on:
        on.ask("first")
        on.answered(1)
        os.kill(on.processes[0].pid, signal.SIGSTOP)
        on.ask("killed")
        on.ask("good")
        on.reactor.call_later(0.2, on.processes[0].kill)
        assert on.answered(3)[1:] == [("killed", 0, LOST), ("good", 3, "")]


def test_an_idle_process_goes() -> None:
    with stage(Patience(idle_s=0.1)) as on:
        on.ask("a")
        on.answered(1)
        on.run_until(lambda: not on.decoder.is_there)
        assert on.processes[0].wait(10) == 0
        on.ask("b")
        assert on.answered(2)[1] == ("b", 3, "")


def test_whoever_waits_for_a_process_that_never_comes_is_told() -> None:
    with stage(Patience(start_s=0.1)) as on:
        on.starts = False
        on.ask("a")
        on.ask("b")
        assert on.answered(2) == [("a", 0, NOT_STARTED), ("b", 0, NOT_STARTED)]
        on.starts = True
        on.decoder._patience = Patience()
        on.ask("c")
        assert on.answered(3)[2] == ("c", 3, "")


def test_a_process_that_cannot_be_started_is_told_of_at_once() -> None:
    with stage() as on:
        on.starts = False
        on.ask("a")
        on.reactor.call_later(0.05, lambda: on.decoder.take(None))
        assert on.answered(1) == [("a", 0, NOT_STARTED)]


@pytest.mark.parametrize("more", [1, 5])
def test_of_too_many_pictures_the_last_ones_are_refused(more: int) -> None:
    with stage() as on:
        on.starts = False
        for each in range(MAX_WAITING + more):
            on.ask(str(each))
        assert on.answers == []
        assert [complaint for _, _, complaint in on.answered(more)] == [BUSY] * more
