"""The child processes: started, listened to, replaced when they are gone or silent.

Owns processes and their links, and no others: only a process that was started here, and was not waited for yet, is ever
sent a signal. What children say is for whom it tells.
"""

import contextlib
import itertools
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.control.messages import NOBODY, FromWeb, FromWorker
from penstock.logs import get_logger
from penstock.serve.links.link import Link
from penstock.serve.reactor import Loop
from penstock.serve.supervisor.notify import own_environment

_EXIT_LOOK_S: Final = 0.01
_EXIT_WAIT_S: Final = 1.0
"""Between the end of its link and the end of a process."""
_MAX_RECOVERED: Final = 16
_SHORT_LIFE_S: Final = 5.0
_FIRST_DELAY_S: Final = 0.5
_LONGEST_DELAY_S: Final = 10.0
_DECODER: Final = msgspec.msgpack.Decoder(FromWorker | FromWeb)


@dataclass(frozen=True, slots=True)
class Patience:
    """For how long children are waited for."""

    silent_s: float = 10.0
    """A child that says nothing for so long is replaced."""
    start_s: float = 60.0
    """The same for one that is not ready yet: it may have recordings to repair."""
    stop_s: float = 20.0
    """After which a child that was told to end is killed; writing to a slow disk takes it 10 s."""


class Backoff:
    """How long to wait before the next start: not at all, but for one that keeps ending within seconds."""

    def __init__(self) -> None:
        self._short_lives = 0

    def delay_s(self, lived_s: float) -> float:
        """After a life of so many seconds."""
        self._short_lives = self._short_lives + 1 if lived_s < _SHORT_LIFE_S else 0
        if self._short_lives < 2:
            return 0.0
        return float(min(_FIRST_DELAY_S * 2.0 ** min(self._short_lives - 2, 10), _LONGEST_DELAY_S))


class Child:
    """One life of a process."""

    def __init__(
        self,
        loop: Loop,
        number: int,
        boot_id: str,
        *,
        replaces: "Child | None",
        process: subprocess.Popen[bytes],
        sock: socket.socket,
        on_message: Callable[["Child", Any], None],
        on_unlinked: Callable[["Child"], None],
        on_gone: Callable[["Child"], None],
    ) -> None:
        self.number = number
        """Of the worker; NOBODY for web."""
        self.boot_id = boot_id
        self.recovers = _recovers(number, replaces)
        self.pid = process.pid
        self.began_at = self.heard_at = loop.clock()
        self.started_at = time.time()
        self.is_ready = False
        self._loop = loop
        self._process = process
        self._on_message = on_message
        self._on_unlinked = on_unlinked
        self._on_gone = on_gone
        self._is_gone = False
        self.link: Link[FromWorker | FromWeb] = Link(loop, sock, _DECODER, self._heard, self._link_ended)

    @property
    def status(self) -> int | None:
        """How it ended, if it was no signal."""
        code = self._process.returncode
        return code if code is not None and code >= 0 else None

    @property
    def signal(self) -> int | None:
        """The signal that ended it."""
        code = self._process.returncode
        return -code if code is not None and code < 0 else None

    def kill(self) -> None:
        """End it at once. Popen knows whether the process is still ours to signal."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)

    def look(self) -> None:
        """Notice an end that the link did not tell of, as whoever the child started may still have it open."""
        if self._process.poll() is not None and self._loop.clock() - self.heard_at > _EXIT_WAIT_S:
            self._gone()

    def _heard(self, message: FromWorker | FromWeb, descriptors: tuple[int, ...]) -> None:
        for descriptor in descriptors:  # nobody has any to give
            os.close(descriptor)
        self.heard_at = self._loop.clock()
        self._on_message(self, message)

    def _link_ended(self) -> None:
        self._on_unlinked(self)
        until = self._loop.clock() + _EXIT_WAIT_S

        def look() -> None:
            if self._process.poll() is not None:
                self._gone()
                return
            if self._loop.clock() >= until:
                self.kill()
            self._loop.call_later(_EXIT_LOOK_S, look)

        look()

    def _gone(self) -> None:
        if not self._is_gone:
            self._is_gone = True
            if self.link.is_open:
                self.link.close()
                self._on_unlinked(self)
            self._on_gone(self)


def _recovers(number: int, replaces: Child | None) -> list[str]:
    """Whose files it is to finish. What its predecessors were to finish is among it: they may not have come to it."""
    if number == NOBODY:
        return []
    if replaces is not None:
        return [*replaces.recovers, replaces.boot_id][-_MAX_RECOVERED:]
    return ["*"] if number == 1 else []


class Children:
    """All children of a supervisor, each by its number."""

    def __init__(
        self,
        loop: Loop,
        commands: Mapping[int, Sequence[str]],
        patience: Patience,
        *,
        inherited: Mapping[int, Collection[int]],
        on_begun: Callable[[Child], None],
        on_message: Callable[[Child, Any], None],
        on_unlinked: Callable[[Child], None],
        on_gone: Callable[[Child], None],
    ) -> None:
        """`commands` are without the descriptor of the link, `inherited` are further descriptors to be kept open.

        `on_unlinked`: nothing more can be said to it, a moment before it is gone.
        """
        self.life_id = secrets.token_hex(4)
        self.living: dict[int, Child] = {}
        self.is_stopping = False
        self._loop = loop
        self._commands = commands
        self._patience = patience
        self._inherited = inherited
        self._on_begun = on_begun
        self._on_message = on_message
        self._on_unlinked = on_unlinked
        self._on_gone = on_gone
        self._lives = itertools.count(1)
        self._backoffs = {number: Backoff() for number in commands}
        self._ticked_at = loop.clock()

    @property
    def workers(self) -> Iterator[Child]:
        return (child for number, child in sorted(self.living.items()) if number != NOBODY)

    @property
    def web(self) -> Child | None:
        return self.living.get(NOBODY)

    def start_all(self) -> None:
        """For the first time."""
        for number in self._commands:
            self._start(number, None)

    def kill_all(self) -> None:
        for child in self.living.values():
            child.kill()

    def tick(self) -> list[Child]:
        """Look after all of them. Those that were silent for too long, which are killed."""
        now = self._loop.clock()
        was_stopped = now - self._ticked_at > self._patience.silent_s / 2
        self._ticked_at = now
        silent = []
        for child in list(self.living.values()):
            child.look()
            if was_stopped:
                # It is us who was not there to listen.
                child.heard_at = now
            patience_s = self._patience.silent_s if child.is_ready else self._patience.start_s
            if now - child.heard_at > patience_s and not self.is_stopping:
                child.kill()
                silent.append(child)
        return silent

    def _start(self, number: int, replaces: Child | None) -> None:
        if self.is_stopping:
            return
        ours, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        try:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
                [*self._commands[number], str(descriptor)],
                stdin=subprocess.DEVNULL,
                pass_fds=(descriptor, *self._inherited.get(number, ())),
                # Of its own, so that Ctrl+C on a terminal reaches the supervisor alone.
                start_new_session=True,
                env=own_environment(),
            )
        except OSError as error:
            # No memory, or too many processes: it may be otherwise in a while.
            ours.close()
            get_logger().error("a process cannot be started", worker=number, reason=error.strerror)
            self._loop.call_later(_LONGEST_DELAY_S, lambda: self._start(number, replaces))
            return
        finally:
            theirs.close()
        boot_id = f"{self.life_id}{next(self._lives):04x}"
        child = Child(
            self._loop,
            number,
            boot_id,
            replaces=replaces,
            process=process,
            sock=ours,
            on_message=self._on_message,
            on_unlinked=self._on_unlinked,
            on_gone=self._child_gone,
        )
        self.living[number] = child
        self._on_begun(child)

    def _child_gone(self, child: Child) -> None:
        del self.living[child.number]
        self._on_gone(child)
        if not self.is_stopping:
            delay_s = self._backoffs[child.number].delay_s(self._loop.clock() - child.began_at)
            self._loop.call_later(delay_s, lambda: self._start(child.number, child))
