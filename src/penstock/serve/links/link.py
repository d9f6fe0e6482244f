"""A link: one end of a Unix socket pair between two processes of a server, on the loop.

Owns sending and receiving messages with descriptors beside them (unix(7), SCM_RIGHTS), and what waits to be sent. Knows
nothing of what messages mean. A message that cannot be read is a defect of a process of ours, and ends the link. So
does a peer that takes nothing, once far too much waits for it.

Descriptors that are sent are the link's from then on: it closes them when they are out, or when it ends. Those that are
received are the receiver's.
"""

import array
import contextlib
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec

from penstock.control.parcels import MAX_DESCRIPTORS, Parcel, ParcelReader, write_parcel
from penstock.errors import MalformedInput
from penstock.serve.reactor import READ, WRITE, Loop

_RECEIVE_BYTES: Final = 256 * 1024
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
CONGESTED_FROM_BYTES: Final = 256 * 1024
"""Behind what the kernel holds, which is as much again."""
MAX_PENDING_BYTES: Final = 128 * 1024 * 1024
"""Twice the largest message. Whoever lets so much come together will not come round any more."""
_TOO_MANY_PAUSE_S: Final = 0.05

_M = TypeVar("_M")
_encode: Final = msgspec.msgpack.Encoder().encode


class Link(Generic[_M]):
    """One end. `on_closed` is called once, when the other end is gone; not after `close`."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        decoder: msgspec.msgpack.Decoder[_M],
        on_message: Callable[[_M, tuple[int, ...]], None],
        on_closed: Callable[[], None],
    ) -> None:
        """A message comes without its descriptors when this process is out of them: whoever needs them has to look."""
        sock.setblocking(False)
        self._loop = loop
        self._socket = sock
        self._decode = decoder.decode
        self._on_message = on_message
        self._on_closed = on_closed
        self._reader = ParcelReader()
        self._pending: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self._waits_to_send = False
        self.pending_bytes = 0
        """What the kernel has not taken yet."""
        self.is_open = True
        self.fault: str | None = None
        """Why the link was ended from this side; None: the other end is gone."""
        # As with a listener, a callback that fails costs the message that it was called for, never the link.
        self._turn = loop.add(sock.fileno(), READ, self._on_events, is_listener=True)

    @property
    def is_congested(self) -> bool:
        """Whether the other side takes less than it is sent: what can wait or be left out should."""
        return self.pending_bytes > CONGESTED_FROM_BYTES

    def send(self, message: Any, descriptors: Iterable[int] = ()) -> None:
        """Send now or as soon as there is room. After the end it is given up, and its descriptors are closed."""
        self.send_body(_encode(message), descriptors)

    def send_body(self, body: bytes, descriptors: Iterable[int] = ()) -> None:
        """The same for a message that is encoded already."""
        descriptors = tuple(descriptors)
        if not self.is_open or self.fault is not None:
            _close_all(descriptors)
            return
        data = write_parcel(Parcel(body, descriptors))
        self._pending.append((memoryview(data), descriptors))
        self.pending_bytes += len(data)
        if not self._waits_to_send:
            self._flush()
        if self.pending_bytes > MAX_PENDING_BYTES:
            self._give_up(f"{self.pending_bytes} bytes wait to be sent")

    def close(self) -> None:
        """End it from this side. What waits to be sent is given up."""
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove(self._socket.fileno())
        self._socket.close()
        self._discard_pending()
        _close_all(self._reader.unclaimed())

    def _on_events(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if events == WRITE:
            return
        try:
            self._receive()
        except (MalformedInput, msgspec.DecodeError) as error:
            self._give_up(str(error))
            self._end()
        except Exception:
            # What came behind the message that failed is already here: no event would tell of it.
            if self.is_open:
                self._loop.queue(self._turn)
            raise

    def _receive(self) -> None:
        self._dispatch()
        while self.is_open:
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(
                    _RECEIVE_BYTES, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError:
                data, ancillary, flags = b"", [], 0  # reset by a peer that was killed with our bytes unread
            if not data:
                self._end()
                return
            self._reader.feed(data, _descriptors_in(ancillary), is_cut=bool(flags & socket.MSG_CTRUNC))
            self._dispatch()
            # Less than there was room for is all that there was, but where descriptors end a read. To be told so by
            # another call would cost as much as the first; what comes meanwhile the loop tells of.
            is_all = len(data) < _RECEIVE_BYTES and not ancillary
            if is_all or self._loop.clock() >= self._loop.turn_ends_at:
                return

    def _dispatch(self) -> None:
        while self.is_open and (parcel := self._reader.next_parcel()) is not None:
            try:
                message = self._decode(parcel.body)
            except msgspec.DecodeError:
                _close_all(parcel.descriptors)
                raise
            self._on_message(message, parcel.descriptors)

    def _flush(self) -> None:
        while self._pending:
            data, descriptors = self._pending[0]
            try:
                sent = self._socket.sendmsg([data], _ancillary_of(descriptors))
            except BlockingIOError:
                self._wait_to_send()
                return
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:
                    # Descriptors on their way count against a limit, whoever is to receive them.
                    self._pause()
                else:
                    self._give_up(os.strerror(error.errno or 0))
                return
            _close_all(descriptors)
            self.pending_bytes -= sent
            if sent == len(data):
                self._pending.popleft()
            else:
                self._pending[0] = (data[sent:], ())
        if self._waits_to_send:
            self._waits_to_send = False
            self._loop.modify(self._socket.fileno(), READ)

    def _wait_to_send(self) -> None:
        if not self._waits_to_send:
            self._waits_to_send = True
            self._loop.modify(self._socket.fileno(), READ | WRITE)

    def _pause(self) -> None:
        if self._waits_to_send:
            self._loop.modify(self._socket.fileno(), READ)
        self._waits_to_send = True
        self._loop.call_later(_TOO_MANY_PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self.is_open and self.fault is None:
            self._waits_to_send = False
            self._flush()

    def _give_up(self, reason: str) -> None:
        """Send no more. The loop then tells of a hang-up, behind what had been received: `send` calls nobody back."""
        self.fault = reason
        self._discard_pending()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _discard_pending(self) -> None:
        for _, descriptors in self._pending:
            _close_all(descriptors)
        self._pending.clear()
        self.pending_bytes = 0

    def _end(self) -> None:
        if self.is_open:
            self.close()
            self._on_closed()


def _ancillary_of(descriptors: tuple[int, ...]) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())] if descriptors else []


def _descriptors_in(ancillary: Iterable[tuple[int, int, bytes]]) -> tuple[int, ...]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            # A list that was cut short may end in half a number.
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return tuple(found)


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
