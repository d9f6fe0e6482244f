"""The configuration: shown, checked, read anew."""

import asyncio
from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.config_sources import load_text
from penstock.errors import ConfigError
from penstock.web.api import models
from penstock.web.api.answers import json_answer
from penstock.web.api.context import ApiContext
from penstock.web.api.guard import requires
from penstock.web.api.problems import Problem, described
from penstock.web.api.tokens import Role

MAX_LINES: Final = 1000
"""Finding the line of a key is quadratic in the lines of a value."""
_RELOADED_WITHIN_S: Final = 8.0
_TOML: Final = {"requestBody": {"required": True, "content": {"application/toml": {"schema": {"type": "string"}}}}}


def router(context: ApiContext) -> APIRouter:
    """GET /config, POST /config/check, POST /config/reload."""
    routes = APIRouter(tags=["config"])

    @routes.get("/config", response_model=models.Configuration)
    async def get_config(request: Request) -> Response:
        """Every setting in force, and where it comes from. No secrets are in it."""
        return json_answer(request, {"settings": context.config.settings()})

    @routes.post(
        "/config/check",
        response_model=models.ConfigVerdict,
        openapi_extra=_TOML,
        dependencies=[requires(Role.OPERATE)],
    )
    async def check_config(request: Request) -> Response:
        """Whether a text could be the configuration file. Nothing that it refers to is looked at."""
        data = await request.body()
        if data.count(b"\n") > MAX_LINES:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"A text may have {MAX_LINES} lines.")
        try:
            await asyncio.to_thread(load_text, data, "text")
        except ConfigError as error:
            return json_answer(request, {"is_valid": False, "complaint": str(error)})
        return json_answer(request, {"is_valid": True, "complaint": None})

    @routes.post(
        "/config/reload",
        response_model=models.Reloaded,
        responses=described(HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
        dependencies=[requires(Role.ADMIN)],
    )
    async def reload_config(request: Request) -> Response:
        """Read the configuration anew, as SIGHUP does."""
        try:
            async with asyncio.timeout(_RELOADED_WITHIN_S):
                complaint = await context.orders.reload()
        except TimeoutError:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "The supervisor does not answer.") from None
        if complaint is not None:
            raise Problem(HTTPStatus.CONFLICT, complaint)
        return json_answer(request, {"is_reloaded": True})

    return routes
