"""RTMP clients made of plain bytes, for scenarios of the whole server.

They say what they are told to and keep what they hear. Every wait has a deadline. All clients of a test are closed at
its end, and one that was sent anything but whole messages fails it.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable

from tests.support.raw_rtmp import AUDIO, COMMAND, DATA, VIDEO, Corrupted, RawMessage, RawReader, amf0, chunked, text_at

DEADLINE_S = 10.0
HANDSHAKE_BYTES = 1 + 1536 + 1536
PING_REQUEST, PING_RESPONSE = 6, 7
LOOPBACK = "127.0.0.1"


class RawClient(asyncio.Protocol):
    """One connection that says what it is told to, and keeps what it hears."""

    def __init__(self) -> None:
        self.messages: list[RawMessage] = []
        """Everything but audio and video, unless `keeps_media`."""
        self.keeps_media = True
        self.answers_pings = True
        self.fault: BaseException | None = None
        self.is_closed = False
        self.chunk_size = 128
        self.on_media: Callable[[RawMessage], None] | None = None
        self.received_bytes = 0
        self._reader = RawReader(self._on_message)
        self._head = bytearray()
        self._is_handshaken = False
        self._changed = asyncio.Event()
        self.transport: asyncio.Transport
        self._transaction = 1.0

    # asyncio's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if not self._is_handshaken:
            self._head += data
            if len(self._head) < HANDSHAKE_BYTES:
                return
            self._is_handshaken = True
            data = bytes(self._head[HANDSHAKE_BYTES:])
        try:
            self._reader.feed(data)
        except Corrupted as fault:
            self.fault = fault
            self.transport.abort()
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._changed.set()

    def _on_message(self, message: RawMessage) -> None:
        if message.type_id in (AUDIO, VIDEO):
            if self.on_media is not None:
                self.on_media(message)
            if not self.keeps_media:
                return
        elif message.type_id == 4 and message.payload[1] == PING_REQUEST and self.answers_pings:
            self.send(RawMessage(4, 0, 0, struct.pack(">H", PING_RESPONSE) + message.payload[2:]), csid=2)
        self.messages.append(message)

    # What tests call.

    def send(self, message: RawMessage, csid: int = 3) -> None:
        self.transport.write(chunked(message, csid, self.chunk_size))

    def set_chunk_size(self, chunk_size: int) -> None:
        self.send(RawMessage(1, 0, 0, struct.pack(">I", chunk_size)), csid=2)
        self.chunk_size = chunk_size

    def call(self, *values: object, stream_id: int = 0) -> None:
        self.send(RawMessage(COMMAND, 0, stream_id, amf0(*values)), csid=3 if stream_id == 0 else 8)

    def send_media(self, message: RawMessage) -> None:
        csid = {AUDIO: 4, VIDEO: 6, DATA: 5}[message.type_id]
        self.transport.write(chunked(message, csid, self.chunk_size))

    async def until(self, is_so: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until something is so; a connection that was corrupted raises what is wrong with it."""
        give_up_at = asyncio.get_running_loop().time() + deadline_s
        while not is_so():
            if self.fault is not None:
                raise self.fault
            left_s = give_up_at - asyncio.get_running_loop().time()
            if left_s <= 0 or (self.is_closed and what != "the end"):
                raise AssertionError(f"waited in vain for {what}; closed: {self.is_closed}; heard {self.codes()}")
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left_s)
            except TimeoutError:
                continue

    async def until_code(self, code: str, deadline_s: float = DEADLINE_S) -> None:
        await self.until(lambda: code in self.codes(), code, deadline_s)

    async def until_closed(self, deadline_s: float = DEADLINE_S) -> None:
        await self.until(lambda: self.is_closed, "the end", deadline_s)

    def codes(self) -> list[str]:
        """Status codes, names of other commands, and user control events, in order."""
        found = []
        for message in self.messages:
            if message.type_id == COMMAND:
                at = message.payload.find(b"\x00\x04code\x02")
                if at < 0:
                    found.append(text_at(message.payload, 1))
                else:
                    found.append(text_at(message.payload, at + 7))
            elif message.type_id == 4:
                found.append(f"event {message.payload[1]}")
        return found

    def media(self, type_id: int | None = None) -> list[RawMessage]:
        wanted = (AUDIO, VIDEO) if type_id is None else (type_id,)
        return [message for message in self.messages if message.type_id in wanted]

    async def connect_app(self, app: str = "live", calls_itself: str = "raw") -> None:
        self.call("connect", self._next(), {"app": app, "tcUrl": f"rtmp://{LOOPBACK}/{app}", "flashVer": calls_itself})
        await self.until_code("NetConnection.Connect.Success")

    async def create_stream(self) -> int:
        transaction = self._next()
        self.call("createStream", transaction, None)
        head = amf0("_result", transaction, None)
        await self.until(lambda: any(m.payload.startswith(head) for m in self.messages), "createStream")
        answer = next(message for message in self.messages if message.payload.startswith(head))
        return int(struct.unpack_from(">d", answer.payload, len(head) + 1)[0])

    async def publish(self, name: str, app: str = "live") -> int:
        """All the way to a publication on a new message stream."""
        await self.connect_app(app)
        stream_id = await self.create_stream()
        self.call("publish", self._next(), None, name, "live", stream_id=stream_id)
        await self.until_code("NetStream.Publish.Start")
        return stream_id

    async def play(self, name: str, app: str = "live", calls_itself: str = "raw") -> int:
        """All the way to a play on a new message stream, granted or not."""
        await self.connect_app(app, calls_itself)
        stream_id = await self.create_stream()
        self.call("play", self._next(), None, name, stream_id=stream_id)
        return stream_id

    def reset(self) -> None:
        """Break the connection off, as a crash does."""
        self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _socket(self) -> socket.socket:
        found: socket.socket = self.transport.get_extra_info("socket")
        return found

    def _next(self) -> float:
        self._transaction += 1
        return self._transaction


class RawClients:
    """Opens clients of one server, and closes them all at the end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.opened: list[RawClient] = []

    async def __aenter__(self) -> "RawClients":
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.opened:
            client.transport.abort()
        for client in self.opened:
            await client.until_closed() if client.fault is None else None
        for client in self.opened:
            if client.fault is not None:
                raise client.fault

    async def open(
        self,
        receive_buffer_bytes: int | None = None,
        *,
        shakes_hands: bool = True,
        source: str | None = None,
        proxy_header: bytes = b"",
        tls: ssl.SSLContext | None = None,
    ) -> RawClient:
        """A new connection, past the handshake unless told otherwise.

        It may come from another address of this machine, have a proxy say first where it is from, or be under TLS.
        """
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        if source is not None:
            sock.bind((source, 0))
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, (LOOPBACK, self._port))
        if proxy_header:
            await loop.sock_sendall(sock, proxy_header)
        name = None if tls is None else "localhost"
        _, client = await loop.create_connection(RawClient, sock=sock, ssl=tls, server_hostname=name)
        self.opened.append(client)
        if shakes_hands:
            client.transport.write(b"\x03" + bytes(1536) + bytes(1536))
        return client

    async def publisher(self, name: str, app: str = "live") -> tuple[RawClient, int]:
        client = await self.open()
        return client, await client.publish(name, app)

    async def viewer(self, name: str, app: str = "live", receive_buffer_bytes: int | None = None) -> RawClient:
        client = await self.open(receive_buffer_bytes)
        await client.play(name, app)
        return client
