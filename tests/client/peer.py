"""A server for the client's tests, in the same event loop: our server session around a socket, and what a test wants.

Grants connect, publish and play unless the test answers itself. Keeps every event, and every byte as it came, so that
what a client sent can be read by the independent reader.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from penstock.errors import ProtocolViolation
from penstock.protocol.events import ConnectRequested, Event, PlayRequested, PublishRequested
from penstock.protocol.handshake import NONCE_BYTES
from penstock.protocol.server_session import ServerSession
from tests.support.independent_rtmp import OracleMessage, read_messages

LOOPBACK = "127.0.0.1"
DEADLINE_S = 10.0

EventKind = TypeVar("EventKind")


class Peer:
    """One client as the server sees it."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.session = ServerSession(nonce=os.urandom(NONCE_BYTES), time_ms=0)
        self.writer = writer
        self.events: list[Event] = []
        self.received = bytearray()
        self._reader = reader

    async def flush(self) -> None:
        self.writer.write(self.session.data_to_send())
        await self.writer.drain()

    async def serve(self, answer: "Answer") -> None:
        while data := await self._reader.read(65536):
            self.received += data
            self.session.receive_data(data)
            await self._handle_events(answer)
        self.session.receive_eof()
        await self._handle_events(answer)

    async def _handle_events(self, answer: "Answer") -> None:
        while (event := self.session.next_event()) is not None or self.session.is_unfinished:
            if event is None:
                await self.flush()
                continue
            self.events.append(event)
            if not await answer(self, event):
                self._grant(event)
        if not self.writer.is_closing():
            await self.flush()

    def _grant(self, event: Event) -> None:
        match event:
            case ConnectRequested():
                self.session.accept_connect()
            case PublishRequested():
                self.session.accept_publish(event.stream_id)
            case PlayRequested():
                self.session.accept_play(event.stream_id)
            case _:
                pass

    def messages(self) -> list[OracleMessage]:
        """What the client sent, by another reader than ours."""
        return read_messages(bytes(self.received))


Answer = Callable[[Peer, Event], Awaitable[bool]]
"""Called with each event; says whether it was answered, so that nothing more is to be done."""


async def grant(_peer: Peer, _event: Event) -> bool:
    return False


class PeerServer:
    """A listening server and all that ever connected."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.port = 0
        self.scheme = "rtmp"

    def url(self, name: str = "test") -> str:
        return f"{self.scheme}://{LOOPBACK}:{self.port}/live/{name}"

    async def wait_for(self, kind: type[EventKind]) -> EventKind:
        """The first event of a kind, of any client."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for event in [event for peer in self.peers for event in peer.events]:
                    if isinstance(event, kind):
                        return event
                await asyncio.sleep(0.005)


@asynccontextmanager
async def peer_server(answer: Answer = grant, ssl_context: ssl.SSLContext | None = None) -> AsyncIterator[PeerServer]:
    """Serve for the length of the block."""
    served = PeerServer()
    tasks: set[asyncio.Task[None]] = set()

    async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        peer = Peer(len(served.peers), reader, writer)
        served.peers.append(peer)
        try:
            await peer.serve(answer)
        except (ConnectionError, ProtocolViolation):
            pass
        finally:
            writer.close()

    async with raw_server(on_client, ssl_context) as port:
        served.port = port
        served.scheme = "rtmp" if ssl_context is None else "rtmps"
        yield served
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_server(handler: Handler, ssl_context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Any server at all; gives its port."""
    server = await asyncio.start_server(handler, LOOPBACK, 0, ssl=ssl_context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
