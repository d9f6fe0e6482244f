"""Programs, started and ended by way of the guard.

Owns the guard process, from the first program on, and what is known of programs that run. A guard that is gone is
replaced with the next start; its programs ended with it.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.logs import get_logger
from penstock.web.programs.guard import MAX_PACKET_BYTES, TERMINATE_S
from penstock.web.programs.output import Lines

_STOP_S: Final = 5.0
"""From SIGTERM to SIGKILL."""
_GUARD: Final = "penstock.web.programs.guard"


class Program:
    """One run of a program."""

    def __init__(self, number: int, send: Callable[[dict[str, Any]], None]) -> None:
        self.number = number
        self.started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The number of the first process of its group; never, if it could not be started."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """How it ended, in words: `status 0`, `signal 9`, or why it could not be started."""
        self._send = send

    async def stop(self) -> None:
        """End it with all of its group: gently, then not."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.ended.done():
                return
            self._send({"signal": self.number, "number": int(number)})
            await asyncio.wait([self.ended], timeout=_STOP_S)


class Launcher:
    """All programs of this process."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", _GUARD)) -> None:
        self._command = command
        self._guard: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._programs: dict[int, Program] = {}
        self._numbers = itertools.count(1)

    async def start(self, arguments: Sequence[str], environment: dict[str, str], name: str) -> Program:
        """Start a program. What it prints is logged under the name of its hook."""
        number = next(self._numbers)
        program = Program(number, self._send)
        self._programs[number] = program
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            lines = Lines(lambda text, left_out: _log(name, text, left_out), asyncio.get_running_loop().time)
            await asyncio.get_running_loop().connect_read_pipe(lambda: lines, os.fdopen(reading, "rb", 0))
            message = {"start": number, "arguments": list(arguments), "environment": environment}
            socket.send_fds(self._connect(), [_packet(message)], [writing])
        except OSError as error:
            self._over(number, str(error))
        finally:
            os.close(writing)
        return program

    async def close(self) -> None:
        """End everything: the guard does, once its socket is gone."""
        self._disconnect(is_in_order=True)
        if self._guard is not None:
            try:
                await asyncio.to_thread(self._guard.wait, TERMINATE_S + _STOP_S)
            except subprocess.TimeoutExpired:
                self._guard.kill()
                self._guard.wait()
            self._guard = None

    def _connect(self) -> socket.socket:
        if self._socket is None:
            if self._guard is not None:
                self._guard.wait()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._guard = subprocess.Popen(  # noqa: S603 - our own
                    [*self._command, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
                )
            ours.setblocking(False)
            self._socket = ours
            asyncio.get_running_loop().add_reader(ours, self._receive)
        return self._socket

    def _disconnect(self, *, is_in_order: bool) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        for number, program in list(self._programs.items()):
            if program.started.done() and not is_in_order:
                # The kernel has ended the program itself. Who else is in its group keeps the number from being reused.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(program.started.result(), signal.SIGKILL)
            self._over(number, "its guard is gone")

    def _send(self, message: dict[str, Any]) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.send(json.dumps(message).encode())

    def _receive(self) -> None:
        if self._socket is None:
            return
        try:
            packet = self._socket.recv(MAX_PACKET_BYTES)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._disconnect(is_in_order=False)
            return
        match json.loads(packet):
            case {"started": number, "pid": pid}:
                if number in self._programs:
                    self._programs[number].started.set_result(pid)
            case {"failed": number, "reason": reason}:
                self._over(number, reason)
            case {"ended": number, "status": status}:
                self._over(number, f"status {status}" if status >= 0 else f"signal {-status}")

    def _over(self, number: int, how: str) -> None:
        program = self._programs.pop(number, None)
        if program is not None and not program.ended.done():
            program.ended.set_result(how)


def _packet(message: dict[str, Any]) -> bytes:
    packet = json.dumps(message).encode()
    if len(packet) > MAX_PACKET_BYTES:
        raise OSError("its arguments are too long")
    return packet


def _log(name: str, text: str, left_out: int) -> None:
    more = {"left_out": left_out} if left_out else {}
    get_logger().info("hook program", hook=name, output=text, **more)
