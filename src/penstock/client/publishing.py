"""Publishing: frames of the caller to a server, at the caller's pace.

Owns the task that listens while the caller sends: it answers pings and hears when the server breaks off, which the next
`send` then raises. Metadata goes out wrapped in @setDataFrame, as servers keep for late joiners only what comes so.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final

from penstock.amf import AmfValue, EcmaArray, write_amf0_values
from penstock.client.address import read_address
from penstock.client.link import DEFAULT_TIMEOUTS, Link, Timeouts, open_link
from penstock.errors import PenstockError
from penstock.media.frame import Frame, FrameKind
from penstock.protocol.data import SET_DATA_FRAME
from penstock.protocol.events import PublishStarted, StatusReceived
from penstock.protocol.status import StatusCode

_SET_DATA_FRAME: Final = write_amf0_values(SET_DATA_FRAME)


class PublishStream:
    """A stream being published. `sent_bytes` and `sent_frames` count what was given to the socket."""

    __slots__ = ("_fault", "_link", "sent_bytes", "sent_frames")

    def __init__(self, link: Link) -> None:
        self.sent_bytes = 0
        self.sent_frames = 0
        self._link = link
        self._fault: PenstockError | None = None

    async def send_metadata(self, properties: Mapping[str, AmfValue], timestamp_ms: int = 0) -> None:
        """Publish onMetaData."""
        self._check()
        self._link.session.send_metadata(self._link.stream_id, timestamp_ms, EcmaArray(properties))
        await self._link.flush()

    async def send(self, frame: Frame) -> None:
        """Send one frame; waits while the server takes no more. Raises what the server has said against it."""
        self._check()
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

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    async def listen(self) -> None:
        """Hear the server until it breaks off; run by `publish` beside the caller."""
        try:
            while True:
                event = await self._link.next_event(deadline_s=None)
                if isinstance(event, StatusReceived) and event.code == StatusCode.UNPUBLISH_SUCCESS:
                    # A good answer to our own goodbye, which is said only when nobody listens any more.
                    raise self._link.refused("to go on", event.code, event.description)
                self._link.raise_refusal(event)
        except PenstockError as fault:
            self._fault = fault


@contextlib.asynccontextmanager
async def publish(
    url: str,
    *,
    app: str | None = None,
    stream: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
) -> AsyncIterator[PublishStream]:
    """Publish to `url` for the length of the block, and end the stream as encoders do.

    RemoteRefused and RemoteLost say why the server does not take it, here or in a later `send`.
    """
    address = read_address(url, app=app, stream=stream)
    link = await open_link(address, timeouts=timeouts, ssl_context=ssl_context, announced_name=address.stream)
    try:
        link.session.publish(link.stream_id, address.stream)
        await link.wait_for(PublishStarted, "answer to publish")
        publication = PublishStream(link)
        listener = asyncio.create_task(publication.listen())
        try:
            yield publication
        finally:
            # The goodbye below reads by itself, and two cannot read one socket.
            listener.cancel()
            await asyncio.wait([listener])
    finally:
        await link.end()
