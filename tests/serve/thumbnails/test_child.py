"""The process that decodes, as a process: what it answers, what it may not, and when it ends."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from penstock.control.parcels import Parcel, ParcelReader, write_parcel
from penstock.control.thumbnails import Decode, Decoded
from tests.serve.thumbnails.pictures import Coded, probed, recorded

MODULE = "penstock.serve.thumbnails.child"


class Child:
    """A child, and the worker's end of its socket."""

    def __init__(self, process: "subprocess.Popen[bytes]", connection: socket.socket) -> None:
        self.process = process
        self.connection = connection
        self._reader = ParcelReader()

    def send(self, request: int, coded: Coded) -> None:
        self.connection.sendall(write_parcel(Parcel(msgspec.msgpack.encode(Decode(request, *coded)))))

    def hear(self) -> Decoded | None:
        while (parcel := self._reader.next_parcel()) is None:
            data = self.connection.recv(65536)
            if not data:
                return None
            self._reader.feed(data)
        return msgspec.msgpack.decode(parcel.body, type=Decoded)

    def ask(self, request: int, coded: Coded) -> Decoded | None:
        self.send(request, coded)
        return self.hear()


@contextlib.contextmanager
def child(parent: int | None = None) -> Iterator[Child]:
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    command = [sys.executable, "-m", MODULE, str(theirs.fileno()), str(parent or os.getpid())]
    with ours, subprocess.Popen(command, pass_fds=(theirs.fileno(),)) as process:
        theirs.close()
        try:
            yield Child(process, ours)
        finally:
            process.kill()


def test_it_answers_one_picture_after_the_other(tmp_path: Path) -> None:
    with child() as decoder:
        first, second = decoder.ask(1, recorded("AVC")), decoder.ask(2, recorded("AV1"))
    assert first is not None
    assert second is not None
    assert (first.request, second.request) == (1, 2)
    assert probed(first.jpegs[640], tmp_path) == probed(second.jpegs[160], tmp_path) == "mjpeg,128,72"


def test_a_broken_picture_costs_itself_alone() -> None:
    with child() as decoder:
        broken = decoder.ask(1, Coded("HEVC", b"\xff" * 50, b"\0" * 50_000))
        unknown = decoder.ask(2, Coded("MPEG-9", b"", b""))
        good = decoder.ask(3, recorded("VP9"))
    assert broken is not None
    assert (broken.jpegs, broken.complaint != "") == ({}, True)
    assert unknown is not None
    assert unknown.complaint == "NoPicture: MPEG-9 is not decoded here"
    assert good is not None
    assert len(good.jpegs) == 3


def test_it_ends_with_its_worker() -> None:
    with child() as decoder:
        decoder.ask(1, recorded("AVC"))
        decoder.connection.close()
        assert decoder.process.wait(10) == 0


def test_it_ends_with_its_parent_though_its_worker_is_there() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    code = (
        "import os, subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-m', '{MODULE}', sys.argv[1], str(os.getpid())],"
        " pass_fds=(int(sys.argv[1]),))\n"
        "sys.stdin.read()\n"
    )
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno())], stdin=subprocess.PIPE, pass_fds=(theirs.fileno(),)
        ) as parent,
    ):
        theirs.close()
        decoder = Child(parent, ours)
        assert decoder.ask(1, recorded("AVC")) is not None
        parent.kill()
        assert decoder.hear() is None


def test_it_serves_nobody_whose_parent_is_gone_already() -> None:
    with child(parent=1) as decoder:
        assert decoder.process.wait(30) == 0


def run(code: str) -> "subprocess.CompletedProcess[str]":
    """A process that has confined itself, and then runs this."""
    begun = (
        f"import os, signal, socket, time\nfrom {MODULE} import _allow_one_picture, confine\nparent = os.getppid()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", f"{begun}assert confine(parent)\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd')",
        "open('written', 'w')",
        "socket.socket()",
        "os.memfd_create('x')",
        "os.pipe()",
    ],
)
def test_it_opens_nothing(code: str) -> None:
    assert "Too many open files" in run(code).stderr


def test_it_writes_to_no_file_that_it_has(tmp_path: Path) -> None:
    code = (
        "import os\n"
        f"there = os.open('{tmp_path / 'there'}', os.O_CREAT | os.O_WRONLY)\n"
        f"from {MODULE} import confine\n"
        "confine(os.getppid())\n"
        "os.write(there, b'x')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "File too large" in done.stderr
    assert (tmp_path / "there").read_bytes() == b""


def test_it_takes_no_more_memory_than_it_may() -> None:
    assert "MemoryError" in run("bytearray(2 * 1024 ** 3)").stderr


@pytest.mark.parametrize(
    ("code", "signals"),
    [("while True: pass", {signal.SIGALRM, signal.SIGXCPU}), ("time.sleep(20)", {signal.SIGALRM})],
    ids=["by the processor", "by the clock"],
)
def test_it_is_ended_by_the_kernel_when_a_picture_takes_too_long(code: str, signals: set[int]) -> None:
    began_at = time.monotonic()
    done = run(f"_allow_one_picture()\n{code}")
    assert -done.returncode in signals
    assert time.monotonic() - began_at < 15
