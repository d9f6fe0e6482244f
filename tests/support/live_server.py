"""The live server in a process of its own, with any settings: for scenarios of floods, limits and crashes.

Owns its start, what it told its observers, its memory as the kernel counts it, and the verdict at the end: it must
leave by SIGTERM with status 0, and must have met no bug of its own. Run as a module it is that process.
"""

import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.protocol.connection import ConnectionSettings
from penstock.relay.log import LogLimits
from penstock.serve.connections.acceptor import raise_descriptor_limit
from penstock.serve.server import Server
from penstock.serve.settings import AppSettings, FlushPolicy, JoinPolicy, ServerSettings
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.send_ring import open_send_ring
from tests.support.processes import RunningProgram, running

DEADLINE_S = 15.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by where they are."""

    pss_bytes: int
    memfd_bytes: int
    socket_bytes: int
    """Of all TCP sockets of the machine, the clients' with them."""

    @property
    def total_bytes(self) -> int:
        return self.pss_bytes + self.memfd_bytes + self.socket_bytes


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
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="ascii")
        pss = re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)
        sockets = re.search(r"^TCP: .* mem (\d+)", Path("/proc/net/sockstat").read_text(encoding="ascii"), re.MULTILINE)
        assert pss is not None
        assert sockets is not None
        return Memory(1024 * int(pss[1]), self._memfd_bytes(), os.sysconf("SC_PAGESIZE") * int(sockets[1]))

    def _memfd_bytes(self) -> int:
        found = 0
        for path in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                if "penstock-log" in str(path.readlink()):
                    found += 512 * path.stat().st_blocks
            except FileNotFoundError:
                continue  # closed since it was listed
        return found

    def descriptors(self) -> int:
        """How many it has open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def live_server(tmp_path: Path, **settings: Any) -> Iterator[LiveServer]:
    """Serve for the length of the block.

    Settings are fields of ServerSettings; `app`, `log` and `connection` hold those of AppSettings, LogLimits and
    ConnectionSettings, `max_descriptors` limits the process, and `has_ring` says whether io_uring may be used.
    """
    command = [sys.executable, "-m", __name__, json.dumps(settings)]
    log_path = tmp_path / f"server-{time.monotonic_ns()}.log"
    with running(command, log_path) as program:
        program.wait_for_log("listening ", DEADLINE_S)
        server = LiveServer(program, 0)
        server = LiveServer(program, int(server.heard("listening")[0]))
        yield server
        status = program.stop()
        if status != 0:
            raise program.failure(f"ended with status {status}")
        if bugs := server.heard("error"):
            raise program.failure(f"the server met {len(bugs)} bugs of its own")


class _Telling(Observer):
    """Prints each call as a line: its name and the text of what it is about."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "second_passed":
            return object.__getattribute__(self, name)

        def tell(*arguments: object) -> None:
            texts = [str(getattr(each, "key", getattr(each, "address", each))) for each in arguments]
            print(name, *(text.replace("\n", " ") for text in texts), flush=True)  # noqa: T201
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


def main() -> None:
    values = json.loads(sys.argv[1])
    max_descriptors = values.pop("max_descriptors", None)
    raise_descriptor_limit()
    if max_descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max_descriptors, max_descriptors))
    ring = open_send_ring() if values.pop("has_ring", True) else None
    server = Server(settings_of(values), _Telling(), ring=ring)
    server.reactor.on_signal(signal.SIGTERM, server.shut_down)
    print("listening", server.listen(LOOPBACK, 0), flush=True)  # noqa: T201
    server.run()


if __name__ == "__main__":
    main()
