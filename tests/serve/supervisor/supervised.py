"""A supervisor process with fake children: `supervised.py KIND SILENT_S STOP_S FLAGS…`, and tests' hold on it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.config_sources import LoadedConfig, load_with_origins
from penstock.serve.supervisor import run
from penstock.serve.supervisor.children import Patience

DEADLINE_S = 20.0
CHILD = Path(__file__).with_name("fake_child.py")


class Supervised:
    """The process, its lines and its clients."""

    def __init__(self, process: subprocess.Popen[str], clients: contextlib.ExitStack) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self._clients = clients
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.texts.append(line)

    def wait_for(self, msg: str, count: int = 1) -> dict[str, Any]:
        """The line of that many with this message."""
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            found = [line for line in self.lines if line["msg"] == msg]
            if len(found) >= count:
                return found[count - 1]
            time.sleep(0.01)
        raise AssertionError(f"no {msg!r} among {self.lines} {self.texts}")

    def started(self) -> dict[str, Any]:
        return self.wait_for("server started")

    def connect(self, listener: str = "rtmp", source: str = "127.0.0.1") -> tuple[socket.socket, dict[str, Any] | None]:
        """A client, and which worker has it; None if it was turned away."""
        host, port = self.started()[listener].split(":")
        client = self._clients.enter_context(socket.socket())
        client.settimeout(DEADLINE_S)
        client.bind((source, 0))
        client.connect((host, int(port)))
        return client, read_line(client)

    def told(self, client: socket.socket) -> list[Any]:
        """What the worker of a client was told until now."""
        client.sendall(b"?\n")
        answer = read_line(client)
        assert isinstance(answer, list)
        return answer

    def end(self) -> int:
        """Wait for its end, and its last lines."""
        status = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


def read_line(client: socket.socket) -> Any:
    data = b""
    while not data.endswith(b"\n"):
        try:
            piece = client.recv(65536)
        except ConnectionResetError:
            piece = b""
        if not piece:
            return None
        data += piece
    return json.loads(data)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return False


def wait_until_dead(*pids: int) -> None:
    until = time.monotonic() + DEADLINE_S
    while any(map(is_alive, pids)):
        assert time.monotonic() < until, f"{pids} still run"
        time.sleep(0.01)


@contextmanager
def supervised(
    data: Path, *flags: str, kind: str = "worker", silent_s: float = 10.0, stop_s: float = 10.0, **environment: str
) -> Iterator[Supervised]:
    """A supervisor with two fake workers and a fake web, unless flags say otherwise."""
    words = ["--data", str(data), "--rtmp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--workers", "2", *flags]
    command = [sys.executable, str(Path(__file__)), kind, str(silent_s), str(stop_s), *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    with contextlib.ExitStack() as clients:
        server = Supervised(process, clients)
        try:
            yield server
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)
            server.end()


def main() -> int:
    kind, silent_s, stop_s, *words = sys.argv[1:]
    flags = dict(zip(words[::2], words[1::2], strict=True))
    file = flags.pop("--config", None)

    def load() -> LoadedConfig:
        given: dict[str, object] = {name: [value] if name == "--record" else value for name, value in flags.items()}
        return load_with_origins(Path(file) if file else None, {}, given)

    return run(
        load(),
        load,
        worker_command=(sys.executable, str(CHILD), kind),
        web_command=(sys.executable, str(CHILD), "web"),
        patience=Patience(silent_s=float(silent_s), start_s=20.0, stop_s=float(stop_s)),
    )


if __name__ == "__main__":
    from penstock.errors import ConfigError

    try:
        sys.exit(main())
    except ConfigError as error:
        sys.stderr.write(f"penstock: {error}\n")
        sys.exit(2)
