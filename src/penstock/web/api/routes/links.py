"""Links to streams and recordings, for players that send no headers."""

from http import HTTPStatus
from typing import assert_never

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext
from penstock.web.api.problems import Problem, described
from penstock.web.api.schema import links as schema


def router(context: ApiContext) -> APIRouter:
    """POST /links."""
    routes = APIRouter(tags=["links"])

    @routes.post(
        "/links",
        status_code=HTTPStatus.CREATED,
        response_model=schema.Link,
        responses=described(HTTPStatus.NOT_FOUND),
    )
    async def make_link(request: Request, order: schema.NewStreamLink | schema.NewRecordingLink) -> Response:
        """A link to play a stream or a recording. It counts under every rule for playing but `deny`."""
        match order:
            case schema.NewStreamLink():
                link = context.links.for_stream(order.app, order.stream, order.for_s)
            case schema.NewRecordingLink():
                if order.recording not in context.recordings.files:
                    raise Problem(HTTPStatus.NOT_FOUND, "There is no such recording.")
                link = context.links.for_recording(order.recording, order.for_s)
            case _:
                assert_never(order)
        answer = {"query": link.query, "expires_at": rfc3339(link.expires_at * 1_000_000), "paths": link.paths}
        return json_answer(request, answer, HTTPStatus.CREATED)

    return routes
