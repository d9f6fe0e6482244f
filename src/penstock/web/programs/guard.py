"""python -m penstock.web.programs.guard FD: a small process that starts programs and sees them end.

Owns the programs of exec hooks. They are not the web process's own children because that may be killed: the end of its
socket is noticed here, whatever it died of, and everything that was started ends with it, each program with all
processes of its group. If this process is killed itself, the kernel ends the programs, and web the rest of each group.

Messages are JSON, one to a packet, with the descriptor that takes the program's output beside the first kind:

    {"start": 7, "arguments": [...], "environment": {...}}    {"failed": 7, "reason": ""}, or {"started": 7, "pid": 123}
    {"signal": 7, "number": 15}                               and later {"ended": 7, "status": 0}
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

MAX_PACKET_BYTES: Final = 128 * 1024
TERMINATE_S: Final = 2.0
"""From SIGTERM to SIGKILL, once the web process is gone."""
_SET_PARENT_DEATH_SIGNAL: Final = 1
_NOT_OURS: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


class Guard:
    """All programs that run, each by the number that the web process gave it."""

    def __init__(self, web: socket.socket, die_with_us: Callable[[], None]) -> None:
        self._web = web
        self._die_with_us = die_with_us
        self._selector = selectors.DefaultSelector()
        self._selector.register(web, selectors.EVENT_READ)
        self._programs: dict[int, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        """Until the web process is gone, and everything that it had started."""
        is_there = True
        while is_there:
            for key, _ in self._selector.select():
                if key.fileobj is self._web:
                    is_there = self._receive()
                else:
                    self._reap(key.data)
        self._end_all()

    def _receive(self) -> bool:
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._web, MAX_PACKET_BYTES, 1)
        except OSError:
            return False
        if not packet:
            return False
        message = json.loads(packet)
        if "start" in message:
            self._start(message["start"], message["arguments"], message["environment"], descriptors[0])
        elif message["signal"] in self._programs:
            self._signal(self._programs[message["signal"]], message["number"])
        return True

    def _start(self, number: int, arguments: list[str], environment: dict[str, str], output: int) -> None:
        try:
            program = subprocess.Popen(  # noqa: S603 - the operator's own words, and no shell
                arguments,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=self._die_with_us,  # noqa: PLW1509 - this process has no threads
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._tell({"failed": number, "reason": str(error)})
            return
        finally:
            os.close(output)
        self._programs[number] = program
        self._tell({"started": number, "pid": program.pid})
        self._selector.register(os.pidfd_open(program.pid), selectors.EVENT_READ, number)

    def _reap(self, number: int) -> None:
        program = self._programs.pop(number)
        # Before it is waited for: until then no other process can have its number.
        self._signal(program, signal.SIGKILL)
        for key in [key for key in self._selector.get_map().values() if key.data == number]:
            self._selector.unregister(key.fileobj)
            os.close(key.fd)
        self._tell({"ended": number, "status": program.wait()})

    def _signal(self, program: "subprocess.Popen[bytes]", number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, number)

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._web.send(json.dumps(message).encode())

    def _end_all(self) -> None:
        self._selector.unregister(self._web)
        for program in self._programs.values():
            self._signal(program, signal.SIGTERM)
        ends_at = time.monotonic() + TERMINATE_S
        while self._programs and (left_s := ends_at - time.monotonic()) > 0:
            for key, _ in self._selector.select(left_s):
                self._reap(key.data)
        for number in list(self._programs):
            self._signal(self._programs[number], signal.SIGKILL)
            self._reap(number)


def main() -> int:
    """Serve the web process at the other end of a descriptor."""
    for number in _NOT_OURS:
        # By a function: what is ignored would stay so in programs.
        signal.signal(number, lambda _number, _frame: None)
    set_option = ctypes.CDLL(None, use_errno=True).prctl
    guard = os.getpid()

    def die_with_us() -> None:
        set_option(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != guard:  # it died in between
            os.kill(os.getpid(), signal.SIGKILL)

    Guard(socket.socket(fileno=int(sys.argv[1])), die_with_us).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
