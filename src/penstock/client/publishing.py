"""Publishing: frames of the caller to a server, at the caller's pace.

Owns the task that listens while the caller sends: it answers pings and hears when the server breaks off, which the next
`send` then raises. Metadata goes out wrapped in @setDataFrame, as servers keep for late joiners only what comes so.

With `reconnect`, a server that asks its clients to come back (Enhanced RTMP v2, reconnect request) is obeyed: a new
connection is opened while the old one goes on, and at the next key frame the stream is ended there and published here,
set-up first. A server that goes away without having asked is lost all the same.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from penstock.amf import AmfValue, EcmaArray, write_amf0_values
from penstock.client.link import DEFAULT_TIMEOUTS, Link, Timeouts, open_link
from penstock.client.playing import Backoff
from penstock.errors import PenstockError, ProtocolViolation, RemoteError
from penstock.media.frame import Frame, FrameKind
from penstock.protocol.data import SET_DATA_FRAME
from penstock.protocol.events import PublishStarted, ReconnectRequested, StatusReceived
from penstock.protocol.status import StatusCode
from penstock.rtmp_address import StreamAddress, moved_to, read_address

_SET_DATA_FRAME: Final = write_amf0_values(SET_DATA_FRAME)
OpenLink = Callable[[StreamAddress], Awaitable[Link]]


class PublishStream:
    """A stream being published. `sent_bytes` and `sent_frames` count what was given to the socket, and `reconnects` how
    often the server had it come back."""

    __slots__ = (
        "_address",
        "_backoff",
        "_fault",
        "_has_video",
        "_link",
        "_listener",
        "_next_link",
        "_open_link",
        "_setup",
        "_waits_for_key",
        "reconnects",
        "sent_bytes",
        "sent_frames",
    )

    def __init__(self, link: Link, address: StreamAddress, open_link: OpenLink, backoff: Backoff | None) -> None:
        self.sent_bytes = 0
        self.sent_frames = 0
        self.reconnects = 0
        self._link = link
        self._address = address
        self._open_link = open_link
        self._backoff = backoff
        self._fault: PenstockError | None = None
        self._listener: asyncio.Task[None] | None = None
        self._next_link: asyncio.Task[Link | None] | None = None
        """Once the server has asked its clients to come back."""
        self._setup: dict[object, Frame] = {}
        """What a server has to be sent first, the newest of each sort."""
        self._has_video = False
        self._waits_for_key = False

    async def begin(self) -> None:
        """Have the server take the stream, and listen to it from then on."""
        link, name = self._link, self._address.stream
        link.session.publish(link.stream_id, name)
        await link.wait_for(PublishStarted, "answer to publish")
        self._listener = asyncio.create_task(self._listen(link))

    async def end(self) -> None:
        """End the stream as encoders do, and the connection."""
        next_link, self._next_link = self._next_link, None
        if next_link is not None:
            next_link.cancel()
            await asyncio.wait([next_link])
            if not next_link.cancelled() and (link := next_link.result()) is not None:
                await link.close()
        await self._stop_listening()
        await self._link.end()

    async def send_metadata(self, properties: Mapping[str, AmfValue], timestamp_ms: int = 0) -> None:
        """Publish onMetaData."""
        payload = write_amf0_values("onMetaData", EcmaArray(properties))
        await self.send(Frame(FrameKind.DATA, timestamp_ms, payload, False, True, False, ()))

    async def send(self, frame: Frame) -> None:
        """Send one frame; waits while the server takes no more. Raises what the server has said against it."""
        is_start = frame.is_key or (not self._has_video and not frame.is_setup)
        if self._next_link is not None and (self._fault is not None or (is_start and self._next_link.done())):
            await self._come_back(await self._next_link, frame.timestamp_ms)
        if self._fault is not None:
            raise self._fault
        if frame.is_setup:
            self._setup[frame.setup_slots or frame.kind] = frame
        elif frame.kind is FrameKind.VIDEO:
            self._has_video = True
        if self._waits_for_key and not frame.is_setup:
            if not is_start:
                return
            self._waits_for_key = False
        await self._send(frame)

    async def _send(self, frame: Frame) -> None:
        session, stream_id = self._link.session, self._link.stream_id
        if frame.kind is FrameKind.DATA:
            is_bare = frame.is_setup and not frame.payload.startswith(_SET_DATA_FRAME)
            payload = _SET_DATA_FRAME + frame.payload if is_bare else frame.payload
            session.send_data(stream_id, frame.timestamp_ms, payload)
        else:
            session.send_media(stream_id, frame.kind, frame.timestamp_ms, frame.payload)
        await self._link.flush()
        self.sent_frames += 1
        self.sent_bytes += len(frame.payload)

    async def _listen(self, link: Link) -> None:
        """Hear the server until it breaks off, beside the caller."""
        try:
            while True:
                event = await link.next_event(deadline_s=None)
                if isinstance(event, StatusReceived) and event.code == StatusCode.UNPUBLISH_SUCCESS:
                    # A good answer to our own goodbye, which is said only when nobody listens any more.
                    raise link.refused("to go on", event.code, event.description)
                if isinstance(event, ReconnectRequested) and self._backoff is not None and self._next_link is None:
                    moved = moved_to(self._address, event.tc_url)
                    self._next_link = asyncio.create_task(self._prepare(moved, self._backoff))
                link.raise_refusal(event)
        except PenstockError as fault:
            self._fault = fault

    async def _stop_listening(self) -> None:
        # What is said next on this connection reads by itself, and two cannot read one socket.
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])

    async def _prepare(self, moved: StreamAddress, backoff: Backoff) -> Link | None:
        """A connection to where the server sent its clients, or to where it was; None: there is none to be had."""
        for tries in range(backoff.tries):
            try:
                return await self._open_link(self._address if tries % 2 else moved)
            except (RemoteError, ProtocolViolation):
                await asyncio.sleep(backoff.pause_s(tries))
        return None

    async def _come_back(self, link: Link | None, timestamp_ms: int) -> None:
        """Leave the connection for another one, which is sent set-up first."""
        self._next_link = None
        if link is None:
            return
        await self._stop_listening()
        old, self._link = self._link, link
        # One that was lost has missed something, and the next server begins with a key frame.
        self._waits_for_key, self._fault = self._fault is not None, None
        await old.end()
        link.session.announce_publish(self._address.stream)
        await self.begin()
        self.reconnects += 1
        for frame in self._setup.values():
            await self._send(frame._replace(timestamp_ms=timestamp_ms))


@contextlib.asynccontextmanager
async def publish(
    url: str,
    *,
    app: str | None = None,
    stream: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
    reconnect: bool | Backoff = False,
) -> AsyncIterator[PublishStream]:
    """Publish to `url` for the length of the block, and end the stream as encoders do.

    RemoteRefused and RemoteLost say why the server does not take it, here or in a later `send`. With `reconnect` a
    server that asks its clients to come back is obeyed.
    """
    address = read_address(url, app=app, stream=stream)
    backoff = reconnect if isinstance(reconnect, Backoff) else Backoff() if reconnect else None

    async def open_again(moved: StreamAddress) -> Link:
        return await open_link(moved, timeouts=timeouts, ssl_context=ssl_context, can_reconnect=True)

    link = await open_link(
        address,
        timeouts=timeouts,
        ssl_context=ssl_context,
        can_reconnect=backoff is not None,
        announced_name=address.stream,
    )
    publication = PublishStream(link, address, open_again, backoff)
    try:
        await publication.begin()
        yield publication
    finally:
        await publication.end()
