"""What systemd is told of the server (sd_notify(3)): ready, reloading, stopping, alive.

Owns the datagrams to the socket that NOTIFY_SOCKET names. Where there is none, nothing is told.
"""

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

_WATCHDOG_PINGS: Final = 2
"""In the time after which systemd takes us for dead: half of it is what it asks for."""


class Notifier:
    """The service manager that started this process, if one did."""

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is in the abstract namespace, which the kernel spells with a zero byte.
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self.watchdog_s = _watchdog_s(environment, pid)
        """How often `alive` is to be told; None: never."""

    def ready(self) -> None:
        self._send("READY=1")

    def reloading(self) -> None:
        """`ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        # A manager that does not listen is no reason to fail, or to wait.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(state.encode(), self._address)


def own_environment() -> dict[str, str]:
    """The environment of children: without what is addressed to this process alone."""
    addressed = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
    return {name: value for name, value in os.environ.items() if name not in addressed}


def _watchdog_s(environment: Mapping[str, str], pid: int) -> float | None:
    text = environment.get("WATCHDOG_USEC", "")
    if not text.isdecimal() or environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    return int(text) / 1_000_000 / _WATCHDOG_PINGS
