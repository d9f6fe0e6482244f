"""Viewers, over all workers and protocols."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.control.live import Kick
from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext, ordered, seen
from penstock.web.api.guard import requires
from penstock.web.api.paging import DEFAULT_ITEMS, App, Cursor, Limit, Stream, listed, sorted_by
from penstock.web.api.problems import Problem, described
from penstock.web.api.tokens import Role
from penstock.web.live.state import VIEW_SORTS, OpenView

Sort = Annotated[str, sorted_by(*VIEW_SORTS)]


def router(context: ApiContext) -> APIRouter:
    """GET /viewers, DELETE /viewers/{view_id}."""
    routes = APIRouter(tags=["viewers"])
    state = context.happenings.state

    @routes.get("/viewers", response_model=models.Items[models.Viewer], responses=described(HTTPStatus.NOT_FOUND))
    async def list_viewers(
        request: Request,
        *,
        limit: Limit = DEFAULT_ITEMS,
        cursor: Cursor = None,
        app: App = None,
        stream: Stream = None,
        sort: Sort = "view_id",
    ) -> Response:
        """Everybody who watches."""
        return json_answer(
            request,
            listed(lambda: state.page_of_views(limit, cursor, app=app, stream=stream, sort=sort), show_viewer),
        )

    @routes.delete(
        "/viewers/{view_id}",
        status_code=HTTPStatus.NO_CONTENT,
        responses=described(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
        dependencies=[requires(Role.OPERATE)],
    )
    async def kick_viewer(view_id: str) -> Response:
        """End a view."""
        found = state.views.get(view_id)
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "There is no such viewer.")
        ordered(context.orders.to_worker(found.worker, Kick(None, view_id)))
        await seen(lambda: view_id not in state.views)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return routes


def show_viewer(each: OpenView) -> dict[str, Any]:
    """A viewer as it is answered."""
    value = each.value
    return {
        "view_id": value.view_id,
        "conn_id": value.conn_id,
        "app": value.app,
        "stream": value.stream,
        "protocol": value.protocol,
        "peer_addr": value.peer_addr,
        "client": value.client,
        "auth_subject": value.auth_subject,
        "started_at": rfc3339(value.started_at_us),
        "watched_us": value.watched_us,
        "sent_bytes": value.sent_bytes,
        "lag_ms": value.lag_ms,
        "skips": value.skips,
        "rule": value.rule,
        "worker": each.worker,
    }
