"""A link to another process of the server: messages over a Unix socket, with descriptors beside them.

Owns the socket. What is sent is small and rare, but for the list of blocks. What the other side does not take now goes
when it does; one that takes nothing for long hears no more, which is logged: its supervisor will have ended it by then.
"""

import array
import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from penstock.control.messages import Message
from penstock.control.parcels import MAX_DESCRIPTORS, Parcel, ParcelReader, write_parcel
from penstock.errors import MalformedInput
from penstock.logs import get_logger

_RECEIVE_BYTES: Final = 64 * 1024
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
_MAX_UNSENT_BYTES: Final = 8 * 1024 * 1024
"""Several lists of 10,000 blocks. An order that is not sent would be one that was answered and not obeyed."""
_encode: Final = msgspec.msgpack.Encoder().encode

Received = TypeVar("Received")
OnMessage = Callable[[Received, tuple[int, ...]], None]
"""Takes a message and owns the descriptors that came with it."""


class Link(Generic[Received]):
    """One end of a link, read by the running loop until it ends."""

    def __init__(
        self,
        connection: socket.socket,
        decoder: "msgspec.msgpack.Decoder[Received]",
        on_message: OnMessage[Received],
        on_end: Callable[[], None],
    ) -> None:
        """`on_end` is called once, when the other side is gone or is not understood; not for `close`."""
        self._socket = connection
        self._decoder = decoder
        self._on_message = on_message
        self._on_end = on_end
        self._reader = ParcelReader()
        self._unsent = bytearray()
        self._is_waiting = False
        """Whether the loop tells when there is room."""
        self._loop = asyncio.get_running_loop()
        connection.setblocking(False)
        self._loop.add_reader(connection, self._receive)

    def send(self, message: Message) -> None:
        """Tell something. Never waits."""
        if len(self._unsent) >= _MAX_UNSENT_BYTES:
            get_logger().error("message between processes left out", kind=type(message).__name__)
            return
        self._unsent += write_parcel(Parcel(_encode(message)))
        self._flush()

    def _flush(self) -> None:
        if self._socket.fileno() < 0:
            return
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # it is gone, and receiving tells
            self._unsent.clear()
        if self._unsent and not self._is_waiting:
            self._loop.add_writer(self._socket, self._flush)
        elif self._is_waiting and not self._unsent:
            self._loop.remove_writer(self._socket)
        self._is_waiting = bool(self._unsent)

    def close(self) -> None:
        """Give everything back. May be called again."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        _close_all(self._reader.unclaimed())

    def _receive(self) -> None:
        try:
            # Not by recv_fds of the standard library, which forgets the flag.
            data, ancillary, _, _ = self._socket.recvmsg(_RECEIVE_BYTES, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if not data:
            self._end()
            return
        self._reader.feed(data, _descriptors_in(ancillary))
        try:
            while self._socket.fileno() >= 0 and (parcel := self._reader.next_parcel()) is not None:
                self._hand_on(parcel)
        except (MalformedInput, msgspec.MsgspecError) as error:
            get_logger().error("message between processes not understood", reason=str(error))
            self._end()

    def _hand_on(self, parcel: Parcel) -> None:
        try:
            message = self._decoder.decode(parcel.body)
        except msgspec.MsgspecError:
            _close_all(parcel.descriptors)
            raise
        self._on_message(message, parcel.descriptors)

    def _end(self) -> None:
        self.close()
        self._on_end()


def decoder_of(messages: Any) -> Any:
    """For the messages of one direction, a union."""
    return msgspec.msgpack.Decoder(messages)


def _descriptors_in(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return found.tolist()


def _close_all(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
