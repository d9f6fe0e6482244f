"""Events as a stream of text (server-sent events, as the HTML standard has them)."""

from typing import Any, Final

from starlette.responses import Response

from penstock.web.asgi import Receive, Scope, Send
from penstock.web.events.batches import Batch, Batches
from penstock.web.events.subscription import Asked, EventFeed, Subscription

CONTENT_TYPE: Final = "text/event-stream"
_RETRY_MS: Final = 2000
"""When browsers connect again: this process is back in two seconds after a kill."""


class EventStream(Response):
    """An answer that goes on until the client has gone."""

    media_type = CONTENT_TYPE

    def __init__(self, feed: EventFeed, asked: Asked) -> None:
        # nginx keeps answers back to fill its buffers, unless told.
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"}, media_type=CONTENT_TYPE)
        del self.headers["content-length"]
        self._feed = feed
        self._asked = asked

    async def __call__(self, _scope: Scope, receive: Any, send: Any) -> None:
        """As Starlette calls answers."""
        batches, is_new = self._feed.batches, self._asked.last_event_id is None
        outlet = _Text(batches, send)
        greeting = batches.sse_place(_RETRY_MS) if is_new else b"retry: %d\n\n" % _RETRY_MS
        subscription = Subscription(self._feed, self._asked, outlet)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await outlet.send(greeting)
        await subscription.run(lambda: _until_gone(receive))


class _Text:
    """One client."""

    def __init__(self, batches: Batches, send: Send) -> None:
        self._batches = batches
        self._send = send

    async def send_batch(self, batch: Batch) -> None:
        await self.send(batch.sse)

    async def send_reset(self) -> None:
        await self.send(self._batches.sse_reset())

    async def send_place(self) -> None:
        await self.send(self._batches.sse_place())

    async def send(self, text: bytes) -> None:
        await self._send({"type": "http.response.body", "body": text, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
