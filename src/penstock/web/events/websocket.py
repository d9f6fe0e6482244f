"""Events over a WebSocket: a message of JSON for each."""

from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from penstock.web.events.batches import Batch, Batches
from penstock.web.events.subscription import Asked, EventFeed, Subscription

_MAX_HEARD: Final = 100
"""Clients have nothing to say here, but some send signs of life of their own."""
_POLICY_VIOLATION: Final = 1008


async def send_events(websocket: WebSocket, feed: EventFeed, asked: Asked) -> None:
    """Until the client has gone. What it says is not listened to, and one that goes on talking is ended."""
    subscription = Subscription(feed, asked, _Messages(feed.batches, websocket))
    await websocket.accept()
    await subscription.run(lambda: _until_gone(websocket))


class _Messages:
    """One client."""

    def __init__(self, batches: Batches, websocket: WebSocket) -> None:
        self._batches = batches
        self._websocket = websocket

    async def send_batch(self, batch: Batch) -> None:
        for event in batch.events:
            await self._send(self._batches.json(event))

    async def send_reset(self) -> None:
        await self._send(self._batches.json_reset())

    async def send_place(self) -> None:
        await self._send(self._batches.json_place())

    async def _send(self, text: str) -> None:
        try:
            await self._websocket.send_text(text)
        except (WebSocketDisconnect, RuntimeError):  # it has gone, or is going: receiving tells
            return


async def _until_gone(websocket: WebSocket) -> None:
    for _ in range(_MAX_HEARD):
        if (await websocket.receive())["type"] == "websocket.disconnect":
            return
    await websocket.close(_POLICY_VIOLATION, "There is nothing to be said here.")
