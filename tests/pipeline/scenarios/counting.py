"""A viewer that counts for itself, with nothing of the product: what it got, for how long, and how soon."""

import asyncio
from dataclasses import dataclass, field

from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import is_key
from tests.support.raw_rtmp import AUDIO, DATA, VIDEO, RawMessage, chunked

# What the server tells every peer; by it, bytes on the wire can be worked out from messages.
CHUNK_BYTES = 4096
STREAM_EOF = "event 1"
SAMPLE_ACCESS = b"\x02\x00\x11|RtmpSampleAccess"


@dataclass(slots=True)
class CountingViewer:
    """One play of a stream. Times are of the event loop."""

    client: RawClient
    asked_at: float
    waited_for_stream: bool = False
    """Whether it was there before the stream was."""
    let_in_at: float | None = None
    first_key_at: float | None = None
    left_at: float | None = None
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """When audio and video came, and how much of it there had been by then."""

    @property
    def received_bytes(self) -> int:
        """Audio, video and data on the wire, with the headers of their chunks, from the first key frame on.

        What comes before is codec configuration that each viewer is given when it joins, and no part of what is shared.
        One that waited for the stream shares everything behind what the server itself says at the beginning.
        """
        of_stream = [each for each in self.client.messages if each.type_id in (AUDIO, VIDEO, DATA)]
        if self.waited_for_stream:
            own = next(number for number, each in enumerate(of_stream) if each.payload.startswith(SAMPLE_ACCESS))
            return sum(map(wire_bytes, of_stream[own + 1 :]))
        first = next(number for number, each in enumerate(of_stream) if each.type_id == VIDEO and is_key(each.payload))
        return sum(map(wire_bytes, of_stream[first:]))

    def received_bytes_by(self, at: float) -> int:
        """The same of audio and video alone, up to a time."""
        return max((total for arrived_at, total in self.arrivals if arrived_at <= at), default=0)

    @property
    def watched_s(self) -> float:
        assert self.let_in_at is not None
        assert self.left_at is not None
        return self.left_at - self.let_in_at

    @property
    def startup_s(self) -> float:
        assert self.first_key_at is not None
        return self.first_key_at - self.asked_at

    async def until_let_in(self) -> None:
        await self.client.until_code("NetStream.Play.Start")
        self.let_in_at = now()

    async def until_picture(self) -> None:
        await self.client.until(lambda: self.first_key_at is not None, "a key frame")

    async def until_end(self) -> None:
        """The end of the stream."""
        await self.client.until_code(STREAM_EOF, deadline_s=30.0)
        self.left_at = now()

    async def leave(self) -> None:
        self.left_at = now()
        self.client.transport.close()
        await self.client.until_closed()

    def take(self, message: RawMessage) -> None:
        if message.type_id == VIDEO and self.first_key_at is None and is_key(message.payload):
            self.first_key_at = now()
        if self.first_key_at is not None:
            before = self.arrivals[-1][1] if self.arrivals else 0
            self.arrivals.append((now(), before + wire_bytes(message)))


async def ask_for(clients: RawClients, name: str, app: str = "live") -> CountingViewer:
    """A viewer that has asked for a stream, whether or not it is there."""
    client = await clients.open()
    # Commands before the play are not part of what it is measured by.
    await client.connect_app(app)
    stream_id = await client.create_stream()
    viewer = CountingViewer(client, asked_at=now())
    client.on_media = viewer.take
    client.call("play", 4.0, None, name, stream_id=stream_id)
    return viewer


def wire_bytes(message: RawMessage) -> int:
    """How much a message takes when it is sent with a full header."""
    return len(chunked(message, 4, CHUNK_BYTES))


def now() -> float:
    return asyncio.get_running_loop().time()
