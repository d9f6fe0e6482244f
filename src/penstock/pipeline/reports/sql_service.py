"""Queries through a Unix socket: a running pipeline answers with the Spark that it has.

Owns the socket and its protocol: one connection, one request as a line of JSON, one answer as a line of JSON. Only the
owner of the data folder can connect. Answers are read-only whatever is asked, bounded in rows and in time, and few at a
time, so that the pipeline's own work goes on.
"""

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

from penstock.errors import PipelineError
from penstock.pipeline.reports.answers import Answer, Asker

SOCKET_NAME: Final = "sql.sock"
QUERY_TIMEOUT_S: Final = 120.0

_MAX_REQUEST_BYTES: Final = 1_000_000
_REQUEST_TIMEOUT_S: Final = 5.0
_MAX_ROWS: Final = 100_000
_AT_A_TIME: Final = 2
_WAITING: Final = 8
_PEER: Final = struct.Struct("3i")
"""Process, user and group of whoever connected, as Linux tells them."""


class SqlService:
    """Listens in a data folder until it is closed."""

    def __init__(self, asker: Asker, folder: Path) -> None:
        self._asker = asker
        self._path = folder / SOCKET_NAME
        self._turns = threading.BoundedSemaphore(_AT_A_TIME)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        hidden = folder / f".{SOCKET_NAME}.{os.getpid()}"
        hidden.unlink(missing_ok=True)
        with _short(hidden) as name:
            self._socket.bind(name)
        # Nobody can connect before `listen`, so the mode is never wider than it should be.
        hidden.chmod(0o600)
        self._socket.listen(_WAITING)
        self._inode = hidden.stat().st_ino
        hidden.replace(self._path)
        self._thread = threading.Thread(target=self._serve, name="sql-service", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more questions. Answers under way are given up with the process."""
        with contextlib.suppress(FileNotFoundError):
            # A later service may have taken the name over.
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), name="sql-answer", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_REQUEST_TIMEOUT_S)
            reply = self._reply(connection)
            connection.sendall(json.dumps(reply, ensure_ascii=False).encode() + b"\n")

    def _reply(self, connection: socket.socket) -> dict[str, Any]:
        try:
            query, limit = _read_request(connection)
            with self._turns:
                return self._asker.ask(query, min(limit, _MAX_ROWS)).to_json()
        except PipelineError as error:
            return {"error": str(error)}


class ServiceAsker:
    """Asks the pipeline that runs on a data folder."""

    def __init__(self, folder: Path, timeout_s: float = QUERY_TIMEOUT_S) -> None:
        self._path = folder / SOCKET_NAME
        self._timeout_s = timeout_s

    def is_there(self) -> bool:
        """Whether somebody of ours listens."""
        try:
            self._connect().close()
        except (OSError, PipelineError):
            return False
        return True

    def ask(self, query: str, limit: int) -> Answer:
        try:
            with self._connect() as connection:
                connection.sendall(json.dumps({"query": query, "limit": limit}).encode() + b"\n")
                with connection.makefile("rb") as stream:
                    reply = json.loads(stream.readline())
        except (OSError, ValueError) as error:
            raise PipelineError(f"sql: the running pipeline did not answer: {error}") from error
        if "error" in reply:
            raise PipelineError(reply["error"])
        return Answer.of_json(reply)

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._timeout_s + _REQUEST_TIMEOUT_S)
            with _short(self._path) as name:
                connection.connect(name)
            _check_owner(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def _check_owner(connection: socket.socket) -> None:
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user not in (os.getuid(), 0):
        raise PipelineError(f"sql: the socket is another user's, {user}")


def _read_request(connection: socket.socket) -> tuple[str, int]:
    try:
        match json.loads(_read_line(connection)):
            case {"query": str(query), "limit": int(limit)}:
                return query, limit
    except ValueError:
        pass
    raise PipelineError("sql: a request is an object with a query and a limit")


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = connection.recv(65_536)
        if not piece or len(line) + len(piece) > _MAX_REQUEST_BYTES:
            raise PipelineError(f"sql: a request is one line of at most {_MAX_REQUEST_BYTES} bytes")
        line += piece
    return line


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for the socket below the 108 bytes that Linux takes, however deep the folder lies."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
