"""A real web process, with the test in the place of its supervisor and its workers."""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from penstock.control import messages
from penstock.control.figures import Figures
from penstock.control.messages import FromWeb, HttpConnection, Linked, Listening, Message, Ready, Welcome
from penstock.control.parcels import Parcel, ParcelReader, write_parcel
from tests.support.rtmp_driver import DEADLINE_S, LOOPBACK

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[FromWeb] = msgspec.msgpack.Decoder(FromWeb)


def send_message(link: socket.socket, message: Message, *descriptors: int) -> None:
    data = write_parcel(Parcel(_encode(message), descriptors))
    sent = socket.send_fds(link, [data], descriptors)
    link.sendall(data[sent:])


class Web:
    """The process, and both ends of what it is told."""

    def __init__(self, process: "subprocess.Popen[str]", supervisor: socket.socket) -> None:
        self.process = process
        self.supervisor = supervisor
        self.worker = socket.socket(socket.AF_UNIX)
        self._reader = ParcelReader()
        self._listener = socket.create_server((LOOPBACK, 0))

    def tell(self, message: Message, *descriptors: int) -> None:
        send_message(self.supervisor, message, *descriptors)

    def tell_figures(self, worker: int = 1, boot_id: str = "b1", pid: int | None = None, **figures: Any) -> None:
        plain = Figures(**figures).to_plain()
        self.tell(messages.Figures(worker, boot_id, os.getpid() if pid is None else pid, plain))

    def link_worker(self) -> None:
        """Another worker takes the place of the one that was there."""
        self.worker.close()
        self.worker, theirs = socket.socketpair()
        self.worker.settimeout(DEADLINE_S)
        with theirs:
            self.tell(Linked(1), theirs.fileno())

    def heard(self, within_s: float = DEADLINE_S) -> Message | None:
        """The next message; None at the end."""
        ends_at = time.monotonic() + within_s
        while (parcel := self._reader.next_parcel()) is None:
            assert select.select([self.supervisor], [], [], max(0.0, ends_at - time.monotonic()))[0], "nothing came"
            data = self.supervisor.recv(1 << 16)
            if not data:
                return None
            self._reader.feed(data)
        return _decoder.decode(parcel.body)

    def hear_until(self, is_it: Callable[[Message], bool]) -> None:
        while True:
            message = self.heard()
            assert message is not None, "it ended"
            if is_it(message):
                return

    def connect(self) -> socket.socket:
        """A client over TCP whose connection has been handed over."""
        client = socket.create_connection(self._listener.getsockname(), DEADLINE_S)
        accepted, (host, port) = self._listener.accept()
        with accepted:
            send_message(self.worker, HttpConnection(f"{host}:{port}", "http"), accepted.fileno())
        return client

    def connect_pair(self, address: str, scheme: str = "https") -> socket.socket:
        """A client behind a worker that ends TLS."""
        client, theirs = socket.socketpair()
        client.settimeout(DEADLINE_S)
        with theirs:
            send_message(self.worker, HttpConnection(address, scheme), theirs.fileno())
        return client

    def ask(self, path: str, method: str = "GET", *headers: str) -> tuple[int, str]:
        lines = [f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]
        answer = self.exchange("\r\n".join(lines).encode())
        return status_of(answer), answer.split(b"\r\n\r\n", 1)[1].decode()

    def exchange(self, *pieces: bytes) -> bytes:
        """Send these pieces and read until the server closes."""
        with self.connect() as client:
            for piece in pieces:
                client.sendall(piece)
            return read_all(client)

    def wait_for_end(self) -> int:
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        self.supervisor.close()
        self.worker.close()
        self._listener.close()


def read_all(client: socket.socket) -> bytes:
    received = b""
    while data := client.recv(1 << 20):
        received += data
    return received


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def start_web(program: str | None = None) -> tuple["subprocess.Popen[str]", socket.socket]:
    """The process alone, and the supervisor's end. `program` is Python in its place."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = ["-m", "penstock.web"] if program is None else ["-c", program]
        process = subprocess.Popen(
            [sys.executable, *command, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stderr=subprocess.PIPE,
            text=True,
        )
    ours.settimeout(DEADLINE_S)
    return process, ours


@contextmanager
def web_process(
    data_dir: Path,
    workers: int = 1,
    http: dict[str, Any] | None = None,
    program: str | None = None,
    listener: socket.socket | None = None,
    *,
    config: dict[str, Any] | None = None,
) -> Iterator[Web]:
    """`listener` is for a port of its own; `config` has sections besides those two."""
    process, supervisor = start_web(program)
    web = Web(process, supervisor)
    try:
        sections = {"server": {"data_dir": str(data_dir)}, "http": http or {}, **(config or {})}
        web.tell(Welcome(0, "w1", "l1", workers, sections, []))
        if listener is not None:
            web.tell(Listening(), listener.fileno())
        web.link_worker()
        web.hear_until(lambda message: isinstance(message, Ready))
        yield web
    finally:
        web.close()
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stderr is not None
        process.stderr.close()
