"""Queries through a Unix socket: a running pipeline answers with the Spark that it has.

Owns the socket and its protocol: one connection, one request as a line of JSON, then any number of notices and one
answer, a line of JSON each. A request is a query, a wish for fresh tables, or both. Only the owner of the data folder
can connect. Answers are read-only whatever is asked, bounded in rows and in time, and few at a time, so that the
pipeline's own work goes on.
"""

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, Self

from penstock.errors import PipelineError
from penstock.pipeline.queries.answers import Answer, QueryRunner
from penstock.pipeline_figures import SOCKET_NAME

QUERY_TIMEOUT_S: Final = 120.0
READY_WITHIN_S: Final = 60.0
"""How long a request waits for fresh tables, and again for a session: Spark starts in about 10 s on a quiet machine."""

_MAX_REQUEST_BYTES: Final = 1_000_000
_REQUEST_TIMEOUT_S: Final = 5.0
_MAX_ROWS: Final = 100_000
_AT_A_TIME: Final = 2
_WAITING: Final = 8
_PEER: Final = struct.Struct("3i")
"""Process, user and group of whoever connected, as Linux tells them."""

Notify = Callable[[str], None]


class Backend(Protocol):
    """What the service needs of the pipeline. Called by several threads."""

    def refresh(self, notify: Notify) -> None:
        """Have what landed taken into the tables. Returns when it is, or after READY_WITHIN_S; then it says so."""

    def session(self, notify: Notify) -> contextlib.AbstractContextManager[QueryRunner]:
        """Somebody who runs queries, for the length of the block; PipelineError after READY_WITHIN_S without one."""
        ...


@dataclass(frozen=True, slots=True)
class _Request:
    query: str | None
    limit: int
    is_refreshing: bool


class SqlService:
    """Listens in a data folder until it is closed."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self._backend = backend
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
        def send(line: dict[str, Any]) -> None:
            connection.sendall(json.dumps(line, ensure_ascii=False).encode() + b"\n")

        with connection, contextlib.suppress(OSError):
            connection.settimeout(_REQUEST_TIMEOUT_S)
            send(self._reply(connection, lambda text: send({"notice": text})))

    def _reply(self, connection: socket.socket, notify: Notify) -> dict[str, Any]:
        try:
            request = _read_request(connection)
            if request.is_refreshing:
                self._backend.refresh(notify)
            if request.query is None:
                return {}
            with self._backend.session(notify) as runner, self._turns:
                return runner.run(request.query, min(request.limit, _MAX_ROWS)).to_json()
        except PipelineError as error:
            return {"error": str(error)}


class ServiceQueryRunner:
    """Asks the pipeline that runs on a data folder."""

    def __init__(
        self,
        folder: Path,
        timeout_s: float = QUERY_TIMEOUT_S + 2 * READY_WITHIN_S,
        *,
        is_refreshing: bool = True,
        notify: Notify = lambda _: None,
    ) -> None:
        """Unless it is refreshing, queries are answered from the tables as they are. `notify` is told of delays."""
        self._path = folder / SOCKET_NAME
        self._timeout_s = timeout_s
        self._is_refreshing = is_refreshing
        self._notify = notify

    def is_there(self) -> bool:
        """Whether somebody of ours listens."""
        try:
            self._connect().close()
        except (OSError, PipelineError):
            return False
        return True

    def run(self, query: str, limit: int) -> Answer:
        return Answer.of_json(self._ask({"query": query, "limit": limit, "refresh": self._is_refreshing}))

    def refresh(self) -> None:
        """Have what landed taken into the tables, for somebody who reads them without a query."""
        self._ask({"refresh": True})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            with self._connect() as connection:
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as stream:
                    while (reply := _read_reply(stream)).keys() == {"notice"}:
                        self._notify(reply["notice"])
        except (OSError, ValueError) as error:
            raise PipelineError(f"sql: the running pipeline did not answer: {error}") from error
        if "error" in reply:
            raise PipelineError(reply["error"])
        return reply

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


def _read_reply(stream: BinaryIO) -> dict[str, Any]:
    line = stream.readline()
    if not line:
        raise PipelineError(
            "sql: the running pipeline ended without an answer, as where pipeline.heap_bytes is too small for a query"
        )
    return dict(json.loads(line))


def _check_owner(connection: socket.socket) -> None:
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user not in (os.getuid(), 0):
        raise PipelineError(f"sql: the socket is another user's, {user}")


def _read_request(connection: socket.socket) -> _Request:
    try:
        match json.loads(_read_line(connection)):
            case {"query": str(query), "limit": int(limit), **rest}:
                return _Request(query, limit, rest.get("refresh") is True)
            case {"refresh": True}:
                return _Request(None, 0, is_refreshing=True)
    except (ValueError, RecursionError):
        pass
    raise PipelineError("sql: a request is an object with a query and a limit, or with refresh")


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
