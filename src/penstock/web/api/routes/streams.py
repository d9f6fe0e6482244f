"""Streams, over all workers: what they are like, who watches, and whether they are recorded."""

import fnmatch
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from penstock.control.live import SetRecording, to_plain
from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext, ordered, seen
from penstock.web.api.guard import requires
from penstock.web.api.paging import DEFAULT_ITEMS, App, Cursor, Limit, Stream, listed, sorted_by
from penstock.web.api.problems import Problem, described
from penstock.web.api.tokens import Role
from penstock.web.live.happenings import Happenings
from penstock.web.live.state import STREAM_SORTS, OpenStream

Sort = Annotated[str, sorted_by(*STREAM_SORTS)]
AppName = Annotated[str, Path(max_length=1024)]
StreamName = Annotated[str, Path(max_length=1024)]


def router(context: ApiContext) -> APIRouter:
    """GET /streams, GET /streams/{app}/{stream}, PUT /streams/{app}/{stream}/recording."""
    routes = APIRouter(tags=["streams"])
    happenings = context.happenings
    state = happenings.state

    def now_us() -> int:
        return round(context.now() * 1_000_000)

    def find(app: str, stream: str) -> OpenStream:
        # Both may have slashes in them, which a path does not tell apart.
        words = f"{app}/{stream}".split("/")
        for cut in range(1, len(words)):
            found = state.streams.get(("/".join(words[:cut]), "/".join(words[cut:])))
            if found is not None:
                return found
        raise Problem(HTTPStatus.NOT_FOUND, "There is no such stream now.")

    @routes.get("/streams", response_model=models.Items[models.Stream], responses=described(HTTPStatus.NOT_FOUND))
    async def list_streams(
        request: Request,
        *,
        limit: Limit = DEFAULT_ITEMS,
        cursor: Cursor = None,
        app: App = None,
        stream: Stream = None,
        sort: Sort = "app",
    ) -> Response:
        """Streams that are published, or wait for their publisher to come back."""
        return json_answer(
            request,
            listed(
                lambda: state.page_of_streams(limit, cursor, app=app, stream=stream, sort=sort),
                lambda each: show_stream(each, happenings, now_us()),
            ),
        )

    @routes.put(
        "/streams/{app}/{stream:path}/recording",
        response_model=models.RecordingSwitch,
        responses=described(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
        dependencies=[requires(Role.OPERATE)],
    )
    async def set_recording(
        request: Request, app: AppName, stream: StreamName, order: models.RecordingSwitch
    ) -> Response:
        """Record a stream or stop recording it, within the patterns of `recording.streams`."""
        found = find(app, stream)
        key = found.value.app, found.value.stream
        patterns = context.config.config.recording.streams
        if not any(fnmatch.fnmatchcase("/".join(key), pattern) for pattern in patterns):
            raise Problem(HTTPStatus.CONFLICT, "recording.streams does not name this stream.")
        if found.value.publisher is None:
            raise Problem(HTTPStatus.CONFLICT, "The stream waits for its publisher.")

        def is_done() -> bool:
            now = state.streams.get(key)
            return now is None or now.value.is_recording == order.is_recording

        if not is_done():
            ordered(context.orders.to_worker(found.worker, SetRecording(*key, order.is_recording)))
            await seen(is_done)
        return json_answer(request, {"is_recording": order.is_recording})

    @routes.get("/streams/{app}/{stream:path}", response_model=models.Stream, responses=described(HTTPStatus.NOT_FOUND))
    async def get_stream(request: Request, app: AppName, stream: StreamName) -> Response:
        """One stream."""
        return json_answer(request, show_stream(find(app, stream), happenings, now_us()))

    return routes


def show_stream(each: OpenStream, happenings: Happenings, now_us: int) -> dict[str, Any]:
    """A stream as it is answered."""
    value = each.value
    audience = happenings.state.audience(value.app, value.stream)
    health = happenings.incidents.health(value.app, value.stream, now_us)
    return {
        "app": value.app,
        "stream": value.stream,
        "state": "waiting" if value.publisher is None else "live",
        "started_at": rfc3339(value.started_at_us),
        "publisher": None if value.publisher is None else _publisher(to_plain(value.publisher)),
        "video": None if value.video is None else to_plain(value.video),
        "audio": None if value.audio is None else to_plain(value.audio),
        "bitrate_bps": value.bitrate_bps,
        "fps": value.fps,
        "keyframe_interval_ms": value.keyframe_interval_ms,
        "av_skew_ms": value.av_skew_ms,
        "viewers": len(audience.views),
        "viewers_by_protocol": audience.by_protocol,
        "received_bytes": value.received_bytes,
        "sent_bytes": audience.sent_bytes,
        "is_recording": value.is_recording,
        "worker": each.worker,
        "verdict": health.verdict,
        "advice": health.advice,
        "left_out": [to_plain(each) for each in value.left_out],
    }


def _publisher(plain: dict[str, Any]) -> dict[str, Any]:
    del plain["publication_id"]
    return plain
