"""The server as a whole: what it is and does, and its end."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext
from penstock.web.api.guard import requires
from penstock.web.api.tokens import Role


def router(context: ApiContext) -> APIRouter:
    """GET /server, POST /drain."""
    routes = APIRouter(tags=["server"])

    @routes.get("/server", response_model=models.Server)
    async def get_server(request: Request) -> Response:
        """What the server is and does."""
        now = context.clock()
        total = context.board.server_figures().total
        identity = context.identity
        state = {
            "server_id": identity.server_id,
            "version": identity.version,
            "life_id": identity.life_id,
            "state": context.board.state(now),
            "complaint": context.board.refusal(now) or context.board.complaint(now),
            "started_at": rfc3339(identity.started_at_us),
            "workers": identity.workers,
            "connections": len(context.happenings.state.connections),
            "publishers": total.publishers,
            "viewers": len(context.happenings.state.views),
            "streams": len(context.happenings.state.streams),
            "received_bytes": total.received_bytes,
            "sent_bytes": total.sent_bytes,
        }
        return json_answer(request, state)

    @routes.post(
        "/drain",
        status_code=HTTPStatus.ACCEPTED,
        response_model=models.Draining,
        dependencies=[requires(Role.ADMIN)],
    )
    async def drain(request: Request, order: models.DrainOrder) -> Response:
        """Take no new connections, and end as for SIGTERM when there are none left or when time is up."""
        context.orders.drain(order.within_s)
        ends_by = rfc3339(round((context.now() + order.within_s) * 1_000_000))
        return json_answer(request, {"ends_by": ends_by}, HTTPStatus.ACCEPTED)

    return routes
