"""`DATA/control.sock`: where the operator's commands ask a running server.

Owns the socket, which only its owner may use (0600), and the form of a question and its answer: one line of JSON each,
then the end. What is answered is not its matter.
"""

import contextlib
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from penstock.errors import ConfigError
from penstock.serve.reactor import READ, WRITE, Reactor, Timer

SOCKET_NAME: Final = "control.sock"
_BACKLOG: Final = 16
_MAX_QUESTION_BYTES: Final = 64 * 1024
_MAX_CLIENTS: Final = 16
_DEADLINE_S: Final = 10.0

Answer = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def _short_name(folder: Path) -> Iterator[str]:
    """The socket's name by way of its folder's descriptor: a path may be longer than the 107 bytes of an address."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def connect(folder: Path, timeout_s: float = _DEADLINE_S) -> socket.socket:
    """A connection to the server of a data folder; OSError if there is none."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(timeout_s)
    try:
        with _short_name(folder) as name:
            sock.connect(name)
    except OSError:
        sock.close()
        raise
    return sock


def is_served(folder: Path) -> bool:
    """Whether a server answers there."""
    try:
        connect(folder).close()
    except OSError:
        return False
    return True


class ControlSocket:
    """The socket, and those who ask."""

    def __init__(self, loop: Reactor, folder: Path, answer: Answer) -> None:
        """A socket that a killed server left is replaced; one that is answered at is another server's."""
        if is_served(folder):
            raise ConfigError(f"server.data_dir: another server uses {folder}")
        self._loop = loop
        self._path = folder / SOCKET_NAME
        self._answer = answer
        self._clients: set[_Client] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._path.unlink(missing_ok=True)
            # On Linux a socket file has the permissions that its socket had when it was bound: nobody gets in between.
            os.fchmod(self._listener.fileno(), stat.S_IRUSR | stat.S_IWUSR)
            with _short_name(folder) as name:
                self._listener.bind(name)
            self._listener.listen(_BACKLOG)
        except OSError as error:
            self._listener.close()
            raise ConfigError(f"server.data_dir: cannot listen at {self._path}: {error.strerror}") from error
        self._listener.setblocking(False)
        loop.add(self._listener.fileno(), READ, self._accept, is_listener=True)

    def close(self) -> None:
        """Answer no more. The file goes first: whoever finds none knows that nobody is there."""
        self._path.unlink(missing_ok=True)
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        for client in list(self._clients):
            client.close()

    def _accept(self, _events: int) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            if len(self._clients) >= _MAX_CLIENTS:
                sock.close()
                return
            self._clients.add(_Client(self._loop, sock, self._answer, self._clients.discard))


class _Client:
    """One who asks one question."""

    def __init__(
        self, loop: Reactor, sock: socket.socket, answer: Answer, on_closed: Callable[["_Client"], None]
    ) -> None:
        sock.setblocking(False)
        self._loop = loop
        self._socket = sock
        self._answer = answer
        self._on_closed = on_closed
        self._question = b""
        self._left = b""
        self._deadline: Timer = loop.call_later(_DEADLINE_S, self.close)
        loop.add(sock.fileno(), READ, self._on_events)

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._deadline.cancel()
        self._loop.forget(self._socket.fileno())
        self._socket.close()
        self._on_closed(self)

    def _on_events(self, _events: int) -> None:
        try:
            self._send() if self._left else self._receive()
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def _receive(self) -> None:
        data = self._socket.recv(_MAX_QUESTION_BYTES)
        self._question += data
        line, end, _ = self._question.partition(b"\n")
        if end:
            self._left = json.dumps(self._answer_to(line)).encode() + b"\n"
            self._loop.modify(self._socket.fileno(), WRITE)
        elif not data or len(self._question) > _MAX_QUESTION_BYTES:
            self.close()

    def _answer_to(self, line: bytes) -> dict[str, Any]:
        try:
            question = json.loads(line)
        except (ValueError, RecursionError):
            question = None
        return self._answer(question) if isinstance(question, dict) else {"error": "a question is a JSON object"}

    def _send(self) -> None:
        self._left = self._left[self._socket.send(self._left) :]
        if not self._left:
            self.close()
