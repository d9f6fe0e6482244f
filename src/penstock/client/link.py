"""One connection to a server: a socket around a client session, and the steps that every client takes first.

Owns the deadlines, and the words for what a server refused or failed to do. Holds no queue: bytes are read only when an
event is asked for, so a slow caller slows the server down by TCP, and a write waits until the socket has room.
"""

import asyncio
import os
import ssl
import time
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.amf import printable
from penstock.errors import RemoteLost, RemoteRefused
from penstock.protocol.capabilities import Capabilities, CapsEx, FourCcInfo, VideoFunction
from penstock.protocol.client_session import ClientSession
from penstock.protocol.events import (
    CallRefused,
    Connected,
    ConnectRefused,
    Event,
    HandshakeCompleted,
    StreamCreated,
    StreamRefused,
)
from penstock.protocol.handshake import NONCE_BYTES
from penstock.rtmp_address import StreamAddress

_READ_BYTES: Final = 256 * 1024
_CLOSE_S: Final = 1.0
_ANY_CODEC: Final = {"*": FourCcInfo.CAN_DECODE | FourCcInfo.CAN_ENCODE | FourCcInfo.CAN_FORWARD}
# Encoders announce a stream before they make it; servers that know no such calls refuse them, which means nothing.
_OPTIONAL_CALLS: Final = frozenset({"releaseStream", "FCPublish", "FCUnpublish"})

EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a client waits.

    `connect_s`: for the socket, with TLS. `answer_s`: for the handshake, and for each answer after it. `stall_s`: for
    room in a socket that the server does not read. `silence_s`: for the next bytes of a stream being played; None is
    for ever, as a publisher may come at any time.
    """

    connect_s: float = 10.0
    answer_s: float = 10.0
    stall_s: float = 30.0
    silence_s: float | None = None


DEFAULT_TIMEOUTS: Final = Timeouts()


def capabilities_of(*, can_reconnect: bool) -> Capabilities:
    """What our clients announce: payloads are the caller's, so any codec is welcome."""
    caps_ex = CapsEx.MULTITRACK | CapsEx.MOD_EX | CapsEx.NANOSECOND_OFFSET
    return Capabilities(
        four_cc_list=("*",),
        video_four_cc=_ANY_CODEC,
        audio_four_cc=_ANY_CODEC,
        caps_ex=caps_ex | CapsEx.RECONNECT if can_reconnect else caps_ex,
        video_function=VideoFunction.HDR | VideoFunction.METADATA_PACKETS,
    )


class Link:
    """A connection with one message stream, ready to publish or play on `stream_id`."""

    __slots__ = ("_is_lost", "_reader", "_server", "_timeouts", "_writer", "session", "stream_id")

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: StreamAddress, timeouts: Timeouts
    ) -> None:
        self.session = ClientSession(nonce=os.urandom(NONCE_BYTES), time_ms=int(time.monotonic() * 1000))
        self.stream_id = 0
        self._reader = reader
        self._writer = writer
        self._server = address.server
        self._is_lost = False
        self._timeouts = timeouts

    async def next_event(self, *, deadline_s: float | None) -> Event:
        """The next event. Reads, and sends what the session answers by itself, for as long as there is none."""
        while (event := self.session.next_event()) is None:
            await self.flush()
            if self.session.is_unfinished:
                # It gave way after so much work: others of this loop come first.
                await asyncio.sleep(0)
            else:
                self.session.receive_data(await self._read(deadline_s))
        return event

    async def wait_for(self, wanted: type[EventT], what: str) -> EventT:
        """Skip all events before one of this kind. A refusal is raised."""
        try:
            async with asyncio.timeout(self._timeouts.answer_s):
                while True:
                    event = await self.next_event(deadline_s=None)
                    if isinstance(event, wanted):
                        return event
                    self.raise_refusal(event)
        except TimeoutError:
            raise self.lost(f"no {what} within {self._timeouts.answer_s:g} s") from None

    async def flush(self) -> None:
        """Send what the session has to send; waits while the socket is full."""
        data = self.session.data_to_send()
        if not data:
            return
        try:
            self._writer.write(data)
            async with asyncio.timeout(self._timeouts.stall_s):
                await self._writer.drain()
        except TimeoutError:
            raise self.lost(f"it read nothing for {self._timeouts.stall_s:g} s") from None
        except OSError as fault:
            raise self.lost(f"the connection broke while sending: {_words(fault)}") from fault

    def raise_refusal(self, event: Event) -> None:
        """Raise what an event refuses; other events pass."""
        match event:
            case ConnectRefused(code, description):
                raise self.refused("connect", code, description)
            case StreamRefused(_, code, description):
                raise self.refused("the stream", code, description)
            case CallRefused(command_name, code, description) if command_name not in _OPTIONAL_CALLS:
                raise self.refused(command_name, code, description)
            case _:
                pass

    def refused(self, what: str, code: str, description: str) -> RemoteRefused:
        """The error for a server that says no."""
        reasons = " ".join(printable(text) for text in (code, description and f"({description})") if text)
        return RemoteRefused(self._server, f"it refused {what}: {reasons or 'it gave no reason'}", code)

    def lost(self, detail: str) -> RemoteLost:
        """The error for a server that does not answer any more; the connection is of no more use."""
        self._is_lost = True
        return RemoteLost(self._server, detail)

    async def end(self) -> None:
        """Give the message stream back and close, so that all that was sent before arrives."""
        try:
            if not self._is_lost:
                await self._say_goodbye()
        finally:
            await self.close()

    async def _say_goodbye(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_S):
                self.session.delete_stream(self.stream_id)
                await self.flush()
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                    # A socket that is closed with bytes unread is reset, and what is still on its way is lost.
                    while await self._reader.read(_READ_BYTES):
                        pass
        except (TimeoutError, RemoteLost, OSError):
            pass  # a server that goes away at this moment needs no goodbye

    async def close(self) -> None:
        """Close the socket, whatever state it is in."""
        self.session.close()
        self._writer.close()
        if self._is_lost:
            # Bytes that the server does not read would keep the socket open for ever.
            self._writer.transport.abort()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()
        except TimeoutError:
            self._writer.transport.abort()
        except OSError:
            pass  # it broke before it was closed

    async def _read(self, deadline_s: float | None) -> bytes:
        try:
            async with asyncio.timeout(deadline_s):
                data = await self._reader.read(_READ_BYTES)
        except TimeoutError:
            # The kernel gives up on a peer by the same error, with no deadline of ours.
            waited = "as long as TCP waits" if deadline_s is None else f"{deadline_s:g} s"
            raise self.lost(f"it sent nothing for {waited}") from None
        except OSError as fault:
            raise self.lost(f"the connection broke: {_words(fault)}") from fault
        if not data:
            raise self.lost("it closed the connection")
        return data


async def open_link(
    address: StreamAddress,
    *,
    timeouts: Timeouts,
    ssl_context: ssl.SSLContext | None,
    can_reconnect: bool = False,
    announced_name: str | None = None,
) -> Link:
    """Connect, shake hands, ask for the app and make a message stream. `announced_name` is what will be published."""
    link = Link(*await _open_socket(address, timeouts, ssl_context), address, timeouts)
    try:
        await link.wait_for(HandshakeCompleted, "handshake")
        link.session.connect(address.app, address.tc_url, capabilities=capabilities_of(can_reconnect=can_reconnect))
        await link.wait_for(Connected, "answer to connect")
        if announced_name is not None:
            link.session.announce_publish(announced_name)
        link.session.create_stream()
        link.stream_id = (await link.wait_for(StreamCreated, "answer to createStream")).stream_id
    except BaseException:
        await link.close()
        raise
    return link


async def _open_socket(
    address: StreamAddress, timeouts: Timeouts, ssl_context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    tls = (ssl_context or ssl.create_default_context()) if address.is_tls else None
    try:
        async with asyncio.timeout(timeouts.connect_s):
            return await asyncio.open_connection(address.host, address.port, ssl=tls, limit=_READ_BYTES)
    except TimeoutError:
        raise RemoteLost(address.server, f"no connection within {timeouts.connect_s:g} s") from None
    except (OSError, ValueError) as fault:
        # A host that cannot be looked up at all, such as one with an empty label, is a ValueError.
        raise RemoteLost(address.server, f"no connection: {_words(fault)}") from fault


def _words(fault: Exception) -> str:
    """What went wrong, in the system's words: asyncio wraps them in an address that the message already has."""
    if isinstance(fault, OSError) and not isinstance(fault, ssl.SSLError) and fault.errno is not None:
        return os.strerror(fault.errno) if fault.errno > 0 else str(fault.strerror)
    return str(fault) or type(fault).__name__
