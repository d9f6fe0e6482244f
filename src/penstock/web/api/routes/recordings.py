"""Recorded files: listed, fetched, played, deleted."""

import asyncio
import os
import stat
from http import HTTPStatus
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.types import Message, Receive, Scope, Send

from penstock.control.live import DeleteRecording
from penstock.errors import MalformedMedia
from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.catalogue import RecordedFile
from penstock.web.api.context import ApiContext, ordered, seen
from penstock.web.api.guard import requires
from penstock.web.api.paging import DEFAULT_ITEMS, App, Cursor, Limit, Stream, listed, page_by, sorted_by
from penstock.web.api.problems import Problem, described, problem_answer
from penstock.web.api.tokens import Role
from penstock.web.exchanges import stay_open
from penstock.web.live.pages import Page
from penstock.web.recorded.mp4_answer import CONTENT_TYPE as MP4
from penstock.web.recorded.mp4_answer import STARTS_AT, Mp4Answer, Mp4Answers

Sort = Annotated[str, sorted_by("id", "app", "stream", "started_at", "duration_ms", "size_bytes", "status")]
_FIELDS: Final = {"started_at": "started_at_us", "size_bytes": "bytes"}
FromS = Annotated[
    float, Query(ge=0, le=10 * 86_400, allow_inf_nan=False, description="Where to begin, in seconds of the recording")
]
_CONTENT_TYPE: Final = "video/x-flv"
_STARTS_AT_HEADER: Final = {
    STARTS_AT: {
        "description": "Where in the recording it begins: at the key frame before `from_s`. Its own time begins at 0.",
        "schema": {"type": "number"},
    }
}
_NO_MEDIA: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)
_DELETED_WITHIN_S: Final = 5.0
_WRONG_RANGES: Final = {
    HTTPStatus.BAD_REQUEST: "Range should be bytes=FIRST-LAST.",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "The file has no such bytes.",
}


def router(context: ApiContext) -> APIRouter:
    """GET /recordings, GET /recordings/{id}/file and media.mp4, DELETE /recordings/{id}."""
    routes = APIRouter(tags=["recordings"])
    answers = Mp4Answers()
    catalogue = context.recordings
    # As it was at the start: workers have a thread that writes and deletes files from then on, or never.
    can_delete = bool(context.config.config.recording.streams)

    def find(recording: str) -> RecordedFile:
        found = catalogue.files.get(recording)
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "There is no such recording.")
        return found

    @routes.get("/recordings", response_model=models.Items[models.Recording], responses=described(HTTPStatus.NOT_FOUND))
    async def list_recordings(
        request: Request,
        *,
        limit: Limit = DEFAULT_ITEMS,
        cursor: Cursor = None,
        app: App = None,
        stream: Stream = None,
        sort: Sort = "started_at",
    ) -> Response:
        """Recorded files. Those that are being written have no duration yet."""

        def make_page() -> Page[RecordedFile]:
            field = sort.removeprefix("-")
            found = (
                each for each in catalogue.files.values() if app in (None, each.app) and stream in (None, each.stream)
            )
            value_of = attrgetter(_FIELDS.get(field, field))
            return page_by(found, value_of, attrgetter("id"), limit, cursor, is_descending=sort.startswith("-"))

        answer = listed(make_page, lambda each: {"file": each})
        files = [each["file"] for each in answer["items"]]
        sizes = await asyncio.to_thread(lambda: [catalogue.size_of(each) for each in files])
        answer["items"] = [show_recording(each, size) for each, size in zip(files, sizes, strict=True)]
        return json_answer(request, answer)

    @routes.get(
        "/recordings/{id}/file",
        response_class=FileResponse,
        responses={
            200: {"description": "The file", "content": {_CONTENT_TYPE: {}}},
            206: {"description": "A part of it", "content": {_CONTENT_TYPE: {}, "multipart/byteranges": {}}},
            **described(
                HTTPStatus.NOT_FOUND, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, HTTPStatus.SERVICE_UNAVAILABLE
            ),
        },
    )
    async def get_recording_file(request: Request, id: str) -> Response:  # noqa: A002 - its name in the path
        """The bytes of a recorded file, or those that the header Range names."""
        found = find(id)
        path = catalogue.path_of(found)
        status = await asyncio.to_thread(_status_of, path)
        if status is None:
            raise Problem(HTTPStatus.NOT_FOUND, "The file is gone.")
        if not stay_open(request.scope):
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "Too many answers are under way.")
        return RecordingAnswer(path, media_type=_CONTENT_TYPE, filename=path.name, stat_result=status)

    async def play(recording: str, from_s: float) -> Mp4Answer:
        found = find(recording)
        if answers.is_full:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "Too many recordings are being played.")
        try:
            return await answers.begin(catalogue.path_of(found), from_s)
        except OSError:
            raise Problem(HTTPStatus.NOT_FOUND, "The file is gone.") from None
        except MalformedMedia as error:
            raise Problem(HTTPStatus.CONFLICT, str(error)) from None

    @routes.get(
        "/recordings/{id}/media.mp4",
        response_class=Response,
        responses={
            200: {
                "description": "The recording",
                "content": {MP4: {}},
                "headers": _STARTS_AT_HEADER,
            },
            **described(*_NO_MEDIA),
        },
    )
    async def get_recording_media(request: Request, id: str, from_s: FromS = 0.0) -> Response:  # noqa: A002
        """A recorded file from a key frame on, as fragmented MP4 for browsers. To seek, ask anew."""
        answer = await play(id, from_s)
        if not stay_open(request.scope):
            answer.close()
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "Too many answers are under way.")
        return answer

    @routes.head(
        "/recordings/{id}/media.mp4",
        response_class=Response,
        responses={
            200: {"description": "What GET would say", "headers": _STARTS_AT_HEADER},
            **{status.value: {"description": status.phrase} for status in _NO_MEDIA},
        },
    )
    async def head_recording_media(id: str, from_s: FromS = 0.0) -> Response:  # noqa: A002 - its name in the path
        """Where `GET` would begin, and whether it could."""
        answer = await play(id, from_s)
        answer.close()
        return Response(headers=dict(answer.headers), media_type=MP4)

    @routes.delete(
        "/recordings/{id}",
        status_code=HTTPStatus.NO_CONTENT,
        responses=described(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
        dependencies=[requires(Role.ADMIN)],
    )
    async def delete_recording(id: str) -> Response:  # noqa: A002 - its name in the path
        """Delete a recorded file."""
        found = find(id)
        if found.is_open:
            raise Problem(HTTPStatus.CONFLICT, "The file is being written.")
        if not can_delete:
            raise Problem(HTTPStatus.CONFLICT, "recording.streams was empty when the server started.")
        ordered(context.orders.to_any_worker(DeleteRecording(found.recording_id, found.segment)))
        await seen(lambda: id not in catalogue.files, _DELETED_WITHIN_S)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return routes


class RecordingAnswer(FileResponse):
    """A file, or the ranges of it that were asked for. Starlette refuses wrong ones in plain text."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_refused = False

        async def send_on(event: Message) -> None:
            nonlocal is_refused
            if event["type"] == "http.response.start" and event["status"] in _WRONG_RANGES:
                is_refused = True
                told = {name: value for name, value in Headers(raw=event["headers"]).items() if name == "content-range"}
                status = HTTPStatus(event["status"])
                await problem_answer(status, _WRONG_RANGES[status], told)(scope, receive, send)
            elif not is_refused:
                await send(event)

        await super().__call__(scope, receive, send_on)


def show_recording(each: RecordedFile, size_bytes: int | None) -> dict[str, Any]:
    """A recorded file as it is answered."""
    return {
        "id": each.id,
        "recording_id": each.recording_id,
        "segment": each.segment,
        "app": each.app,
        "stream": each.stream,
        "path": each.path,
        "started_at": rfc3339(each.started_at_us),
        "duration_ms": None if each.is_open else each.duration_ms,
        "size_bytes": size_bytes,
        "status": each.status,
    }


def _status_of(path: Path) -> os.stat_result | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
