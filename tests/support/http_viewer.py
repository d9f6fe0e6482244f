"""A viewer of HTTP-FLV on a socket: the head of the answer, and its tags as messages.

Owns an FLV reader of its own, of a few lines, that refuses whatever is not whole.
"""

import asyncio
import socket as sockets
import ssl
from collections.abc import Callable
from types import TracebackType

from tests.support.raw_rtmp import RawMessage

LOOPBACK = "127.0.0.1"
_TAG_HEADER_BYTES = 11


class HttpFlvViewer:
    """One request and its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.head = b""
        self.messages: list[RawMessage] = []
        self.has_ended = False

    @classmethod
    async def open(
        cls,
        port: int,
        target: str = "/live/a.flv",
        *,
        headers: str = "",
        receive_buffer_bytes: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> "HttpFlvViewer":
        sock = sockets.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (LOOPBACK, port))
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=tls, server_hostname="localhost" if tls else None, limit=8 * 1024
        )
        viewer = cls(reader, writer)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        return viewer

    async def __aenter__(self) -> "HttpFlvViewer":
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()

    async def read_head(self) -> bytes:
        self.head = await self.reader.readuntil(b"\r\n\r\n")
        return self.head

    async def read_tag(self) -> RawMessage:
        """The next one. Raises at the end of the answer."""
        header = await self.reader.readexactly(_TAG_HEADER_BYTES)
        kind, size = header[0], int.from_bytes(header[1:4], "big")
        timestamp_ms = int.from_bytes(header[4:7], "big") | header[7] << 24
        payload = await self.reader.readexactly(size)
        assert int.from_bytes(await self.reader.readexactly(4), "big") == _TAG_HEADER_BYTES + size
        message = RawMessage(kind, timestamp_ms, int.from_bytes(header[8:11], "big"), payload)
        self.messages.append(message)
        return message

    async def watch(self, is_enough: Callable[[], object], deadline_s: float = 15.0) -> None:
        """Read until a condition holds, or the answer ends."""
        if not self.head:
            assert (await self.read_head()).startswith(b"HTTP/1.1 200 "), self.head
            assert await self.reader.readexactly(13) == b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"
        async with asyncio.timeout(deadline_s):
            while not is_enough():
                try:
                    await self.read_tag()
                except (asyncio.IncompleteReadError, ConnectionError):
                    self.has_ended = True
                    return

    async def watch_more_than(self, messages: int) -> None:
        """Read until there are so many messages of media."""
        await self.watch(lambda: len(self.media()) > messages)

    def media(self) -> list[RawMessage]:
        return [message for message in self.messages if message.type_id in (8, 9)]
