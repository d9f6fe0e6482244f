"""The live server in a process of its own, with any settings: for scenarios of floods, limits and crashes.

Owns its start, what it told its observers, its memory as the kernel counts it, and the verdict at the end: it must
leave by SIGTERM with status 0, and must have met no bug of its own. Run as a module it is that process: a worker that
is alone, or, where PENSTOCK_SERVER_WORKERS says so, a supervisor with so many workers (`live_worker`).
"""

import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.config_sources import load_with_origins
from penstock.protocol.connection import ConnectionSettings
from penstock.relay.readable_log import LogLimits
from penstock.serve.connections.descriptors import raise_descriptor_limit
from penstock.serve.sending.send_ring import open_send_ring
from penstock.serve.server import Server
from penstock.serve.settings import AppSettings, FlushPolicy, JoinPolicy, ServerSettings
from penstock.serve.streams.observer import Observer
from penstock.serve.supervisor import run
from tests.support.lone_worker import listen, lone_registry, port_of
from tests.support.memory_of import Holdings, holdings_of, wait_for_holdings
from tests.support.processes import RunningProgram, running

DEADLINE_S = 15.0
LOOPBACK = "127.0.0.1"
_STARTED = '"msg":"server started"'
_ENTRANCE_LIMITS = (
    "max_connections",
    "max_connections_per_ip",
    "max_new_connections_per_ip_per_s",
    "exempts_loopback",
)
"""Which the supervisor keeps, so they are in its configuration too."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by where they are."""

    own_bytes: int
    memfd_bytes: int
    socket_bytes: int
    """Of all TCP sockets of the machine, the clients' with them."""

    @property
    def total_bytes(self) -> int:
        return self.own_bytes + self.memfd_bytes + self.socket_bytes


@dataclass(frozen=True, slots=True)
class LiveServer:
    """A server on 127.0.0.1:`port`."""

    program: RunningProgram
    port: int

    @property
    def pid(self) -> int:
        return self.program.pid

    def heard(self, name: str) -> list[str]:
        """What an observer was told under one name, each as the text of its last argument."""
        lines = self.program.log_text().splitlines()
        return [text for line in lines if line.startswith(name + " ") for text in [line.partition(" ")[2]]]

    def wait_for(self, name: str, count: int = 1, deadline_s: float = DEADLINE_S) -> list[str]:
        """Return once an observer was told this often enough."""
        give_up_at = time.monotonic() + deadline_s
        while len(found := self.heard(name)) < count:
            if time.monotonic() > give_up_at:
                raise self.program.failure(f"waited in vain for {count} {name}")
            time.sleep(0.02)
        return found

    def memory(self) -> Memory:
        """What it takes now."""
        held = holdings_of(self.pid)
        return Memory(held.private_bytes, held.memfd_bytes, held.socket_bytes)

    def wait_until_empty(self, descriptors: int | None = None) -> None:
        """Return once no log is in memory, and no more descriptors are open than there should be."""
        held = wait_for_holdings(self.pid, lambda now: _is_empty(now, descriptors), DEADLINE_S)
        assert _is_empty(held, descriptors), held

    def descriptors(self) -> int:
        """How many it has open."""
        return holdings_of(self.pid).descriptors


@contextmanager
def live_server(tmp_path: Path, **settings: Any) -> Iterator[LiveServer]:
    """Serve for the length of the block.

    Settings are fields of ServerSettings; `app`, `log` and `connection` hold those of AppSettings, LogLimits and
    ConnectionSettings, `max_descriptors` limits the process, and `has_ring` says whether io_uring may be used.
    """
    command = [sys.executable, "-m", __name__, json.dumps(settings)]
    log_path = tmp_path / f"server-{time.monotonic_ns()}.log"
    with running(command, log_path) as program:
        program.wait_for_log(_STARTED, DEADLINE_S)
        yield (server := LiveServer(program, _port_of(program)))
        status = program.stop()
        if status != 0:
            raise program.failure(f"ended with status {status}")
        if bugs := server.heard("error"):
            raise program.failure(f"the server met {len(bugs)} bugs of its own")


def _is_empty(held: Holdings, descriptors: int | None) -> bool:
    return held.memfd_bytes == 0 and descriptors in (None, held.descriptors)


def _port_of(program: RunningProgram) -> int:
    (line,) = [line for line in program.log_text().splitlines() if _STARTED in line]
    return int(json.loads(line)["rtmp"].rpartition(":")[2])


class Telling(Observer):
    """Prints each call as a line: its name and the text of what it is about."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "second_passed":
            return object.__getattribute__(self, name)

        def tell(*arguments: object) -> None:
            texts = [str(getattr(each, "key", getattr(each, "address", each))) for each in arguments]
            line = " ".join((name, *(text.replace("\n", " ") for text in texts)))
            # In one call, since other processes write to the same file.
            os.write(sys.stdout.fileno(), f"{line}\n".encode())
            if name == "error" and isinstance(arguments[-1], BaseException):
                traceback.print_exception(arguments[-1])

        return tell


def settings_of(values: dict[str, Any]) -> ServerSettings:
    """The settings that a test gave as plain values."""
    app = values.pop("app", {})
    if "join" in app:
        app["join"] = JoinPolicy(app["join"])
    if "grid_s" in app:
        app["flush"] = FlushPolicy(app.pop("grid_s"))
    if app.get("flush") == "frame":
        app["flush"] = FlushPolicy(adapts=False)
    app_settings = AppSettings(**app)
    return ServerSettings(
        app=lambda _name: app_settings,
        log_limits=LogLimits(**values.pop("log", {})),
        connection=ConnectionSettings(**values.pop("connection", {})),
        **values,
    )


def main() -> int:
    values = json.loads(sys.argv[1])
    max_descriptors = values.pop("max_descriptors", None)
    raise_descriptor_limit()
    if max_descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max_descriptors, max_descriptors))
    has_ring = values.pop("has_ring", True)
    workers = int(os.environ.get("PENSTOCK_SERVER_WORKERS", "1"))
    if workers > 1:
        return _supervise(values, workers, has_ring=has_ring)
    server = Server(settings_of(values), lone_registry(), Telling(), ring=open_send_ring() if has_ring else None)
    server.reactor.on_signal(signal.SIGTERM, server.shut_down)
    listener = listen(server)
    print(f'{{{_STARTED},"rtmp":"{LOOPBACK}:{port_of(listener)}"}}', flush=True)  # noqa: T201
    server.run()
    listener.close()
    return 0


def _supervise(values: dict[str, Any], workers: int, *, has_ring: bool) -> int:
    limits = {name: values[name] for name in _ENTRANCE_LIMITS if name in values}
    sections: dict[str, dict[str, Any]] = {
        "server": {"workers": workers, "io_uring": has_ring},
        "rtmp": {"listen": f"{LOOPBACK}:0"},
        "http": {"listen": "none"},
        "facts": {"enabled": False},
        "limits": limits,
    }
    with tempfile.TemporaryDirectory() as data_dir:
        file = Path(data_dir, "penstock.toml")
        file.write_text("".join(f"[{name}]\n{_toml(section)}" for name, section in sections.items()))
        loaded = load_with_origins(file, {}, {"--data": data_dir})
        return run(loaded, worker_command=(sys.executable, "-m", "tests.support.live_worker", json.dumps(values)))


def _toml(section: dict[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in section.items())


if __name__ == "__main__":
    sys.exit(main())
