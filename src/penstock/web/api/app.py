"""The API as an application: its routes, its schema, the page that shows it, and the guard in front.

Owns how they are joined. Everything else that is served over HTTP goes past it.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from penstock import __version__
from penstock.web.access.links import takes_links
from penstock.web.api.answers import json_answer
from penstock.web.api.context import ApiContext
from penstock.web.api.guard import Guard, GuardSettings, RequiredRole
from penstock.web.api.page import PAGE_HEADERS, render_page
from penstock.web.api.problems import ProblemDetails, described, handle_problems
from penstock.web.api.routes import (
    access,
    analytics,
    blocks,
    config,
    connections,
    incidents,
    links,
    pushes,
    recordings,
    server,
    streams,
    test_stream,
    viewers,
)
from penstock.web.api.tokens import Role
from penstock.web.api.wrong_tokens import WrongTokens
from penstock.web.asgi import App, Receive, Scope, Send

PREFIX: Final = "/api/v1"
_RESOURCES: Final = (
    server,
    streams,
    connections,
    viewers,
    links,
    recordings,
    pushes,
    access,
    blocks,
    config,
    incidents,
    analytics,
    test_stream,
)
_REF: Final = "#/components/schemas/{model}"
_DESCRIPTION: Final = """What a Penstock server does, and orders to it.

Times are RFC 3339 in UTC, other units are in the names of fields. A list is `{"items": [], "next_cursor": null}`; its
next page is asked for by `cursor`. Samples are at most two seconds old; starts, stops and kicks show at once."""


class Api:
    """The application with its guard, which a new configuration replaces."""

    def __init__(self, context: ApiContext, settings: GuardSettings, more: Iterable[APIRouter] = ()) -> None:
        """`more` are routes of other parts, below the same prefix."""
        self._app = cast("App", make_app(context, more))
        self._wrong_tokens = WrongTokens(context.clock, context.board.turned_away_here)
        self._is_linked = context.links.admits
        self._guard = Guard(self._app, settings, self._wrong_tokens, self._is_linked)

    def reload(self, settings: GuardSettings) -> None:
        """Other keys, hosts or origins from now on."""
        self._guard = Guard(self._app, settings, self._wrong_tokens, self._is_linked)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one WebSocket."""
        await self._guard(scope, receive, send)


def make_app(context: ApiContext, more: Iterable[APIRouter] = ()) -> FastAPI:
    """All routes, without the guard."""
    app = FastAPI(
        title="Penstock",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses=described(
            HTTPStatus.BAD_REQUEST,
            HTTPStatus.UNAUTHORIZED,
            HTTPStatus.FORBIDDEN,
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            HTTPStatus.MISDIRECTED_REQUEST,
            HTTPStatus.UNPROCESSABLE_ENTITY,
        ),
    )
    handle_problems(app)
    routers = [*(resource.router(context) for resource in _RESOURCES), *more]
    for router in routers:
        app.include_router(router, prefix=PREFIX)
    _show_schema(app)
    # FastAPI makes the schema once all routes are there, and keeps it.
    _complete(app.openapi(), [route for router in routers for route in router.routes if isinstance(route, APIRoute)])
    return app


def _complete(schema: dict[str, Any], routes: Iterable[APIRoute]) -> None:
    """What FastAPI does not know: the shape of problems, tokens and roles, and answers without a body."""
    parts = schema["components"]
    problem = ProblemDetails.model_json_schema(ref_template=_REF)
    parts["schemas"] |= {**problem.pop("$defs"), "ProblemDetails": problem}
    by_link = {"type": "apiKey", "in": "query", "name": "sig", "description": "The query of `POST /links`, with `exp`."}
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}, "link": by_link}
    for route in routes:
        if not route.include_in_schema:
            continue
        role = required_role(route)
        for method in route.methods or ():
            operation = schema["paths"][PREFIX + route.path_format][method.lower()]
            # Reading on this machine may need none.
            operation["security"] = [{"token": []}, *([{}] if role is Role.READ else [])]
            if takes_links(PREFIX + route.path_format):
                operation["security"].append({"link": []})
            operation["description"] += f"\n\nRole: {role.name.lower()}."
            if method == "GET":
                operation["responses"]["304"] = {"description": HTTPStatus.NOT_MODIFIED.phrase}


def required_role(route: APIRoute) -> Role:
    """The least that a caller of a route must be."""
    required = (each.dependency for each in route.dependencies)
    return max((each.role for each in required if isinstance(each, RequiredRole)), default=Role.READ)


def _show_schema(app: FastAPI) -> None:
    async def get_schema(request: Request) -> Response:
        return json_answer(request, app.openapi())

    async def get_page(_request: Request) -> Response:
        return Response(render_page(app.openapi()), headers=PAGE_HEADERS, media_type="text/html")

    for path in (f"{PREFIX}/openapi.json", "/api/openapi.json"):
        app.add_api_route(path, get_schema, include_in_schema=False)
    for path in ("/api", "/api/"):
        app.add_api_route(path, get_page, include_in_schema=False)
