"""Bytes between a client under TLS and the web process, which has the other end of a pair of sockets.

Owns both ends here and at most one piece in each direction: nothing is read on one side before the other has taken all
of the last piece. What HTTP says is not looked at. The client's end of sending is passed on, the end of the web
process's is the end of all, and so is a long silence.
"""

import socket
from collections.abc import Callable
from typing import Final

from penstock.serve.connections.transport import Transport
from penstock.serve.reactor import READ, WRITE, Loop

RECEIVE_BYTES: Final = 16 * 1024
_PIECE_BYTES: Final = 64 * 1024
IDLE_S: Final = 60.0
"""Servers that push events send a comment each quarter of a minute as a rule."""


class TlsPump:
    """One connection under TLS."""

    def __init__(
        self, loop: Loop, transport: Transport, pair: socket.socket, first_bytes: bytes, on_end: Callable[[], None]
    ) -> None:
        """Take over both ends. `first_bytes` were received already. `on_end` is called once, when both are closed."""
        pair.setblocking(False)
        self._loop = loop
        self._transport = transport
        self._pair = pair
        self._on_end = on_end
        self._to_web = memoryview(first_bytes)
        self._to_client = memoryview(b"")
        self._has_client_ended = False
        self._has_web_ended = False
        self._is_end_told = False
        self._is_closed = False
        self._moved_at = loop.now
        self._interest: dict[int, int] = {}
        """What each descriptor is waited for; one that is waited for nothing is not with the loop, or the end of its
        other side would wake us all the time."""
        self._timer = loop.call_later(IDLE_S, self._end_idle)

    def start(self) -> None:
        """Pump from now on."""
        self._step()

    def close(self) -> None:
        """The end of both sides. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        self._timer.cancel()
        for descriptor in (self._transport.descriptor, self._pair.fileno()):
            self._wait_for(descriptor, 0)
        self._transport.close()
        self._pair.close()
        self._on_end()

    def _end_idle(self) -> None:
        silent_s = self._loop.now - self._moved_at
        if silent_s >= IDLE_S:
            self.close()
        else:
            self._timer = self._loop.call_later(IDLE_S - silent_s, self._end_idle)

    def _step(self, _events: int = 0) -> None:
        """Move one piece each way, as far as it goes; what is left has an event of its own."""
        try:
            self._move_to_web()
            is_flushed = self._move_to_client()
        except OSError:
            self.close()
            return
        if self._has_web_ended and not self._to_client and is_flushed:
            self.close()
            return
        reads_client = not self._to_web and not self._has_client_ended
        reads_web = not self._to_client and not self._has_web_ended
        sends_client = bool(self._to_client) or not is_flushed
        self._wait_for(self._transport.descriptor, (READ if reads_client else 0) | (WRITE if sends_client else 0))
        self._wait_for(self._pair.fileno(), (READ if reads_web else 0) | (WRITE if self._to_web else 0))

    def _move_to_web(self) -> None:
        if not self._to_web and not self._has_client_ended:
            data = self._transport.receive(RECEIVE_BYTES)
            self._has_client_ended = data == b""
            self._to_web = memoryview(data or b"")
        if self._to_web:
            try:
                sent = self._pair.send(self._to_web)
            except BlockingIOError:
                sent = 0
            except OSError:
                # It reads no more; what it has said before is still to be passed on.
                self._stop_receiving()
                return
            self._to_web = self._to_web[sent:]
            self._note(sent)
        if self._has_client_ended and not self._to_web and not self._is_end_told:
            self._is_end_told = True
            self._pair.shutdown(socket.SHUT_WR)

    def _move_to_client(self) -> bool:
        """Whether the transport holds nothing back."""
        if not self._to_client and not self._has_web_ended:
            try:
                data = self._pair.recv(_PIECE_BYTES)
            except BlockingIOError:
                return self._transport.flush()
            except OSError:  # it left without reading everything
                data = b""
            self._to_client = memoryview(data)
            if not data:
                self._has_web_ended = True
                self._stop_receiving()
        if self._to_client:
            sent = self._transport.send(self._to_client)
            self._to_client = self._to_client[sent:]
            self._note(sent)
        return self._transport.flush()

    def _stop_receiving(self) -> None:
        self._to_web = memoryview(b"")
        self._has_client_ended = self._is_end_told = True

    def _note(self, moved_bytes: int) -> None:
        if moved_bytes:
            self._moved_at = self._loop.now

    def _wait_for(self, descriptor: int, events: int) -> None:
        known = self._interest.get(descriptor, 0)
        if events == known:
            return
        if not events:
            self._loop.remove(descriptor)
        elif not known:
            self._loop.add(descriptor, events, self._step)
        else:
            self._loop.modify(descriptor, events)
        self._interest[descriptor] = events
