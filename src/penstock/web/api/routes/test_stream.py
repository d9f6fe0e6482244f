"""The test stream: started, looked at, ended.

Where there are no rules of access, whoever reaches the server may publish to it, and so may start the test stream: who
has just started a server has a picture at one button. With rules it takes an operator.
"""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.config import Config
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext
from penstock.web.api.guard import RequiredRole
from penstock.web.api.problems import Problem, described
from penstock.web.api.schema import test_stream as schema
from penstock.web.api.tokens import Role
from penstock.web.programs.test_pattern import NotStarted, PatternStatus

_BY_ITSELF: dict[str, str] = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what a server that listens there is here


def router(context: ApiContext) -> APIRouter:
    """GET, POST and DELETE /test-stream."""
    routes = APIRouter(tags=["test stream"])
    test_pattern = context.test_pattern

    def needed() -> Role:
        return Role.OPERATE if context.config.config.access else Role.READ

    @routes.get("/test-stream", response_model=schema.TestStream)
    async def get_test_stream(request: Request) -> Response:
        """What the newest test stream does."""
        return json_answer(request, _show(test_pattern.status, needed()))

    @routes.post(
        "/test-stream",
        status_code=HTTPStatus.ACCEPTED,
        response_model=schema.TestStream,
        responses=described(HTTPStatus.CONFLICT),
    )
    async def start_test_stream(request: Request, order: schema.NewTestStream | None = None) -> Response:
        """Have the server publish a moving picture and a tone to itself: one at a time, for a while.

        Where there are rules of access, this needs the role operate.
        """
        RequiredRole(needed())(request)
        wanted = order or schema.NewTestStream()
        config = context.config.config
        address = context.identity.listening.get("rtmp")
        if address is None or config.rtmp.proxy_protocol:
            raise Problem(HTTPStatus.CONFLICT, "The test stream needs rtmp.listen, without rtmp.proxy_protocol.")
        try:
            url = _url_of(context, config, address, wanted)
            status = await test_pattern.start(wanted.app, wanted.stream, url, wanted.for_s)
        except NotStarted as error:
            raise Problem(HTTPStatus.CONFLICT, str(error)) from None
        return json_answer(request, _show(status, needed()), HTTPStatus.ACCEPTED)

    @routes.delete(
        "/test-stream",
        status_code=HTTPStatus.NO_CONTENT,
        responses=described(HTTPStatus.NOT_FOUND),
    )
    async def end_test_stream(request: Request) -> Response:
        """End the test stream. Where there are rules of access, this needs the role operate."""
        RequiredRole(needed())(request)
        if not await test_pattern.stop():
            raise Problem(HTTPStatus.NOT_FOUND, "There is no test stream.")
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return routes


def _url_of(context: ApiContext, config: Config, address: str, wanted: schema.NewTestStream) -> str:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    host = _BY_ITSELF.get(host, host)
    url = f"rtmp://{f'[{host}]' if ':' in host else host}:{port}/{wanted.app}/{wanted.stream}"
    if not config.access:
        return url
    return f"{url}?{context.links.to_publish(wanted.app, wanted.stream, host, wanted.for_s)}"


def _show(status: PatternStatus, needed: Role) -> dict[str, Any]:
    return {
        "role": needed.name.lower(),
        "state": status.state.value,
        "words": status.words,
        "app": status.app,
        "stream": status.stream,
        "started_at": _rfc3339(status.started_at),
        "ends_at": _rfc3339(status.ends_at),
    }


def _rfc3339(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(round(seconds * 1_000_000))
