"""The thread in which connections under TLS shake hands before the media loop sees them.

Owns their sockets meanwhile, an epoll to wait for them, and their deadlines. A handshake with an RSA key of 4096 bits
takes OpenSSL 4 ms, and it gives the interpreter up for that time; on the loop, everybody would wait for it. A socket
takes one step per round, so that peers who send byte by byte cannot keep others from theirs. How many connections
there may be is the server's matter, which counts those that are here by `in_handshake`.
"""

import os
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.serve.connections.tls import TlsTransport
from penstock.serve.connections.tls_handshake import TlsHandshake

_EVENTS_PER_ROUND: Final = 32
"""Deadlines and new connections wait for a round: 130 ms if each step of it signs with RSA 4096."""


class _Accepted(NamedTuple):
    """What the loop hands over."""

    connection: socket.socket
    context: ssl.SSLContext
    due: float
    deadline_s: float
    on_open: Callable[[TlsTransport], None]
    on_failed: Callable[[str], None]


class _Outcome(NamedTuple):
    """What the thread hands back: a transport, or why there is none."""

    accepted: _Accepted
    result: TlsTransport | str


class TlsAcceptor:
    """Makes open transports of accepted sockets. All of its methods are for the loop's thread."""

    def __init__(self, call_from_thread: Callable[[Callable[[], None]], None]) -> None:
        """`call_from_thread` has its argument called on the loop's thread, soon."""
        self._call_from_thread = call_from_thread
        self._accepted: deque[_Accepted] = deque()
        self._outcomes: deque[_Outcome] = deque()
        self._handshakes: dict[int, tuple[_Accepted, TlsHandshake]] = {}
        """By descriptor, oldest first. The thread's alone while it runs."""
        self._is_closing = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="penstock-tls", daemon=True)
        self.in_handshake = 0
        """How many sockets were handed over and have not led to a call back yet."""

    def accept(
        self,
        connection: socket.socket,
        context: ssl.SSLContext,
        deadline_s: float,
        *,
        on_open: Callable[[TlsTransport], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Take over a non-blocking socket. Exactly one of the two is called back, on the loop's thread.

        A transport must be asked to `receive` once before its socket is waited for. After a failure, of which the
        reason is told, the socket is closed already. A later call with a shorter deadline may wait for the end of
        those before it.
        """
        self.in_handshake += 1
        due = time.monotonic() + deadline_s
        self._accepted.append(_Accepted(connection, context, due, deadline_s, on_open, on_failed))
        if self._thread.ident is None:
            self._thread.start()
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """End every handshake, and tell who asked for it. Waits for the step in hand, which is milliseconds."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._thread.ident is not None:
            os.eventfd_write(self._wake, 1)
            self._thread.join()
        for accepted in [*(each for each, _ in self._handshakes.values()), *self._accepted]:
            accepted.connection.close()
            self._outcomes.append(_Outcome(accepted, "server shut down"))
        self._handshakes.clear()
        self._accepted.clear()
        while self._outcomes:
            outcome = self._outcomes.popleft()
            if isinstance(outcome.result, TlsTransport):
                outcome.result.close()
                outcome = _Outcome(outcome.accepted, "server shut down")
            self._tell(outcome)
        self._epoll.close()
        os.close(self._wake)

    def _tell_next(self) -> None:
        # None is left for calls that the loop has not come to before `close`.
        if self._outcomes:
            self._tell(self._outcomes.popleft())

    def _tell(self, outcome: _Outcome) -> None:
        self.in_handshake -= 1
        accepted, result = outcome
        if isinstance(result, TlsTransport):
            accepted.on_open(result)
        else:
            accepted.on_failed(result)

    # In the thread.

    def _run(self) -> None:
        while not self._is_closing:
            for descriptor, _events in self._epoll.poll(self._wait_s(), _EVENTS_PER_ROUND):
                if self._is_closing:
                    break
                if descriptor == self._wake:
                    os.eventfd_read(self._wake)
                    self._begin()
                else:
                    self._proceed(descriptor)
            self._end_late()

    def _wait_s(self) -> float | None:
        oldest = next(iter(self._handshakes.values()), None)
        return None if oldest is None else max(0.0, oldest[0].due - time.monotonic())

    def _begin(self) -> None:
        while self._accepted:
            accepted = self._accepted.popleft()
            descriptor = accepted.connection.fileno()
            try:
                handshake = TlsHandshake(accepted.connection, accepted.context)
                self._epoll.register(descriptor, select.EPOLLIN)
            except Exception as error:
                self._hand_back(accepted, _reason(error))
            else:
                self._handshakes[descriptor] = (accepted, handshake)

    def _proceed(self, descriptor: int) -> None:
        _, handshake = self._handshakes[descriptor]
        try:
            if handshake.proceed():
                self._leave(descriptor, handshake.transport())
            else:
                self._epoll.modify(descriptor, select.EPOLLOUT if handshake.is_owing else select.EPOLLIN)
        except Exception as error:
            self._leave(descriptor, _reason(error))

    def _end_late(self) -> None:
        now = time.monotonic()
        while self._handshakes:
            descriptor, (oldest, _) = next(iter(self._handshakes.items()))
            if oldest.due > now:
                return
            self._leave(descriptor, f"handshake not finished in {oldest.deadline_s:g} s")

    def _leave(self, descriptor: int, result: TlsTransport | str) -> None:
        # Before anybody hears of it: the loop has an epoll of its own for this descriptor.
        self._epoll.unregister(descriptor)
        accepted, _ = self._handshakes.pop(descriptor)
        self._hand_back(accepted, result)

    def _hand_back(self, accepted: _Accepted, result: TlsTransport | str) -> None:
        if isinstance(result, str):
            accepted.connection.close()
        self._outcomes.append(_Outcome(accepted, result))
        self._call_from_thread(self._tell_next)


def _reason(error: Exception) -> str:
    """Why a connection is closed; a bug costs one connection as well, never the thread."""
    if isinstance(error, EOFError):
        return "closed by the peer"
    if isinstance(error, OSError):
        return f"connection lost: {error.strerror or error}"
    return f"internal error: {error!r}"
