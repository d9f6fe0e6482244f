"""Open connections, over all workers."""

from collections.abc import Iterable
from http import HTTPStatus
from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.control.live import Kick
from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext, ordered, seen
from penstock.web.api.guard import requires
from penstock.web.api.paging import DEFAULT_ITEMS, App, Cursor, Limit, Stream, listed, page_by, sorted_by
from penstock.web.api.problems import Problem, described
from penstock.web.api.tokens import Role
from penstock.web.live.pages import Page
from penstock.web.live.state import CONNECTION_SORTS, LiveState, OpenConnection

Sort = Annotated[str, sorted_by(*CONNECTION_SORTS)]


def router(context: ApiContext) -> APIRouter:
    """GET /connections, DELETE /connections/{conn_id}."""
    routes = APIRouter(tags=["connections"])
    state = context.happenings.state

    @routes.get(
        "/connections", response_model=models.Items[models.Connection], responses=described(HTTPStatus.NOT_FOUND)
    )
    async def list_connections(
        request: Request,
        *,
        limit: Limit = DEFAULT_ITEMS,
        cursor: Cursor = None,
        app: App = None,
        stream: Stream = None,
        sort: Sort = "conn_id",
    ) -> Response:
        """Open connections: publishers, viewers, and those that have not said yet what they want."""

        def make_page() -> Page[OpenConnection]:
            if stream is None:
                return state.page_of_connections(limit, cursor, app=app, sort=sort)
            field = sort.removeprefix("-")
            value_of = attrgetter(f"value.{field}_us" if field.endswith("_at") else f"value.{field}")
            found = _of_stream(state, app, stream)
            id_of = attrgetter("value.conn_id")
            return page_by(found, value_of, id_of, limit, cursor, is_descending=sort.startswith("-"))

        return json_answer(request, listed(make_page, show_connection))

    @routes.delete(
        "/connections/{conn_id}",
        status_code=HTTPStatus.NO_CONTENT,
        responses=described(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
        dependencies=[requires(Role.OPERATE)],
    )
    async def kick_connection(conn_id: str) -> Response:
        """Close a connection, with all that it publishes and plays."""
        found = state.connections.get(conn_id)
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "There is no such connection.")
        ordered(context.orders.to_worker(found.worker, Kick(conn_id, None)))
        await seen(lambda: conn_id not in state.connections)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return routes


def show_connection(each: OpenConnection) -> dict[str, Any]:
    """A connection as it is answered."""
    value = each.value
    return {
        "conn_id": value.conn_id,
        "peer_addr": value.peer_addr,
        "protocol": value.protocol,
        "client": value.client,
        "app": value.app,
        "opened_at": rfc3339(value.opened_at_us),
        "received_bytes": value.received_bytes,
        "sent_bytes": value.sent_bytes,
        "worker": each.worker,
    }


def _of_stream(state: LiveState, app: str | None, stream: str) -> Iterable[OpenConnection]:
    """Those that publish or play a stream of that name."""
    ids: set[str | None] = set()
    for (of_app, name), live in state.streams.items():
        if name == stream and app in (None, of_app) and live.value.publisher is not None:
            ids.add(live.value.publisher.conn_id)
    for (of_app, name), audience in state.audiences.items():
        if name == stream and app in (None, of_app):
            ids.update(state.views[view_id].value.conn_id for view_id in audience.views)
    return [found for conn_id in ids if conn_id is not None and (found := state.connections.get(conn_id)) is not None]
