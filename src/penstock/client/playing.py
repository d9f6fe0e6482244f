"""Playing: frames of a server's stream, pulled one at a time.

Nothing is read ahead of the caller but what one read of the socket brought, so a caller that is slow holds the server
back, and memory is bounded. Pings are answered while the caller asks for frames.

With `reconnect` a lost connection is opened anew, after a pause that doubles from try to try, and a server that asks
its clients to come back elsewhere is followed. At such a seam frames may be missing or come twice, and set-up comes
again; timestamps are the server's. A stream that the server says is over has ended, with `reconnect` or without.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from penstock.client.link import DEFAULT_TIMEOUTS, Link, Timeouts, open_link
from penstock.errors import ProtocolViolation, RemoteError
from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.protocol.data import SAMPLE_ACCESS
from penstock.protocol.events import (
    DataReceived,
    Event,
    MediaReceived,
    PlayStarted,
    ReconnectRequested,
    StreamEnded,
)
from penstock.rtmp_address import StreamAddress, moved_to, read_address

_KINDS: Final = {8: FrameKind.AUDIO, 9: FrameKind.VIDEO}
# What servers tell the player itself; it is no part of what was published.
_TO_PLAYERS: Final = frozenset({SAMPLE_ACCESS, "onStatus"})
_SIGNS: Final = (PlayStarted, MediaReceived, DataReceived, StreamEnded, ReconnectRequested)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between tries to come back: `first_s`, doubled each time up to `longest_s`, `tries` times in a row."""

    first_s: float = 0.5
    longest_s: float = 10.0
    tries: int = 10

    def pause_s(self, tries_before: int) -> float:
        """How long to wait before the next try."""
        return min(self.first_s * 2.0 ** min(tries_before, 30), self.longest_s)


class PlayStream:
    """A stream being played: an asynchronous iterator of frames. `reconnects` counts the seams so far."""

    __slots__ = ("_address", "_backoff", "_early_event", "_is_over", "_link", "_ssl_context", "_timeouts", "reconnects")

    def __init__(
        self, address: StreamAddress, timeouts: Timeouts, ssl_context: ssl.SSLContext | None, backoff: Backoff | None
    ) -> None:
        self.reconnects = 0
        self._address = address
        self._timeouts = timeouts
        self._ssl_context = ssl_context
        self._backoff = backoff
        self._link: Link | None = None
        self._early_event: Event | None = None
        self._is_over = False

    def __aiter__(self) -> "PlayStream":
        return self

    async def __anext__(self) -> Frame:
        tries = 0
        while True:
            try:
                if self._link is None:
                    self._link = await self._open_link()
                    self.reconnects += 1
                frame = await self._next_frame(self._link)
            except (RemoteError, ProtocolViolation):
                if self._backoff is None or tries == self._backoff.tries:
                    raise
                await self.close()
                await asyncio.sleep(self._backoff.pause_s(tries))
                tries += 1
                continue
            if frame is None:
                raise StopAsyncIteration
            return frame

    async def open(self) -> None:
        """Begin to play. Raises what the server has against it."""
        self._link = await self._open_link()

    async def close(self) -> None:
        """End the play and the connection, if there is one."""
        link, self._link = self._link, None
        if link is not None:
            await link.end()

    async def _open_link(self) -> Link:
        link = await open_link(
            self._address,
            timeouts=self._timeouts,
            ssl_context=self._ssl_context,
            can_reconnect=self._backoff is not None,
        )
        try:
            link.session.play(link.stream_id, self._address.stream)
            self._early_event = await self._first_sign(link)
        except BaseException:
            await link.close()
            raise
        return link

    async def _first_sign(self, link: Link) -> Event | None:
        """The server's answer, or the first frame. None if there is neither in time: it may wait for a publisher."""
        try:
            async with asyncio.timeout(self._timeouts.answer_s):
                while True:
                    event = await link.next_event(deadline_s=None)
                    if isinstance(event, _SIGNS):
                        return event
                    link.raise_refusal(event)
        except TimeoutError:
            return None

    async def _next_frame(self, link: Link) -> Frame | None:
        while not self._is_over:
            event, self._early_event = self._early_event, None
            if event is None:
                event = await link.next_event(deadline_s=self._timeouts.silence_s)
            match event:
                case MediaReceived():
                    return frame_of(_KINDS[event.type_id], event.timestamp_ms, event.payload)
                case DataReceived() if event.name not in _TO_PLAYERS:
                    return frame_of(FrameKind.DATA, event.timestamp_ms, event.payload)
                case StreamEnded():
                    self._is_over = True
                case ReconnectRequested() if self._backoff is not None:
                    self._address = moved_to(self._address, event.tc_url)
                    await self.close()
                    raise link.lost("it asks its clients to come back")
                case _:
                    link.raise_refusal(event)
        return None


@contextlib.asynccontextmanager
async def play(
    url: str,
    *,
    app: str | None = None,
    stream: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
    reconnect: bool | Backoff = False,
) -> AsyncIterator[PlayStream]:
    """Play `url` for the length of the block. The first connection is tried once, also with `reconnect`.

    RemoteRefused and RemoteLost say why there is nothing to play, here or while iterating.
    """
    backoff = reconnect if isinstance(reconnect, Backoff) else Backoff() if reconnect else None
    player = PlayStream(read_address(url, app=app, stream=stream), timeouts, ssl_context, backoff)
    await player.open()
    try:
        yield player
    finally:
        await player.close()
