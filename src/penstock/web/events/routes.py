"""GET /events, as server-sent events and as a WebSocket. Who may is decided in front of it."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request, WebSocket
from pydantic import StringConstraints
from starlette.responses import Response

from penstock.web.api.problems import described, problem_answer
from penstock.web.events.batches import Batches
from penstock.web.events.event_filter import EventFilter, kinds_like
from penstock.web.events.rhythm import Rhythm
from penstock.web.events.sse import CONTENT_TYPE, EventStream
from penstock.web.events.subscription import Asked, EventFeed
from penstock.web.events.websocket import send_events
from penstock.web.exchanges import stay_open
from penstock.web.live.happenings import Happenings

DEFAULT_BATCH_MS: Final = 50
_TRY_AGAIN_LATER: Final = 1013
_PATH: Final = "/events"

App = Annotated[str | None, Query(max_length=1024, description="Events of this app alone")]
Stream = Annotated[str | None, Query(max_length=1024, description="Events of streams with this name alone")]
# Each star costs time to read and to compare, of a loop that answers everybody.
Kind = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[a-z_]*(\*[a-z_]*){0,4}$")]
Kinds = Annotated[list[Kind] | None, Query(max_length=32, description="Kinds, or patterns such as publish_*")]
Samples = Annotated[bool, Query(description="With samples and beacons of views, which come all the time")]
BatchMs = Annotated[int, Query(ge=10, le=10_000, description="How long events may wait for others to be sent with")]
EventId = Annotated[str | None, Query(max_length=256, description="As the header Last-Event-ID, which counts more")]
EventIdHeader = Annotated[str | None, Header(alias="Last-Event-ID", max_length=256)]


def follow(happenings: Happenings, clock: Callable[[], float]) -> EventFeed:
    """The events of this process, for all who follow them."""
    feed = EventFeed(Batches(happenings.log), Rhythm(), clock)
    happenings.listeners.append(lambda event: feed.rhythm.happened(is_sample=event.is_sample))
    return feed


def router(feed: EventFeed) -> APIRouter:
    """Events, of one feed."""
    routes = APIRouter(tags=["events"])

    @routes.get(
        _PATH,
        response_class=Response,
        responses={
            200: {
                "description": "Events as they happen: `id: BOOT:N`, `event: KIND`, `data:` the fact",
                "content": {CONTENT_TYPE: {"schema": {"type": "string"}}},
            },
            **described(HTTPStatus.SERVICE_UNAVAILABLE),
        },
    )
    async def follow_events(
        request: Request,
        *,
        app: App = None,
        stream: Stream = None,
        kind: Kinds = None,
        samples: Samples = False,
        batch_ms: BatchMs = DEFAULT_BATCH_MS,
        last_event_id: EventId = None,
        last_event_id_header: EventIdHeader = None,
    ) -> Response:
        """What happens, from now on or from behind an event that is still known; `event: reset` after a gap."""
        if not stay_open(request.scope):
            return problem_answer(HTTPStatus.SERVICE_UNAVAILABLE, "Too many clients follow events.")
        wanted = EventFilter(app, stream, kinds_like(kind or ()), samples)
        return EventStream(feed, Asked(wanted, batch_ms, last_event_id_header or last_event_id))

    @routes.websocket(_PATH)
    async def follow_events_by_websocket(
        websocket: WebSocket,
        *,
        app: App = None,
        stream: Stream = None,
        kind: Kinds = None,
        samples: Samples = False,
        batch_ms: BatchMs = DEFAULT_BATCH_MS,
        last_event_id: EventId = None,
        last_event_id_header: EventIdHeader = None,
    ) -> None:
        if not stay_open(websocket.scope):
            await websocket.close(_TRY_AGAIN_LATER)
            return
        wanted = EventFilter(app, stream, kinds_like(kind or ()), samples)
        await send_events(websocket, feed, Asked(wanted, batch_ms, last_event_id_header or last_event_id))

    return routes
