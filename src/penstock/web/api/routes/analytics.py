"""Figures out of the tables: each part of the report, how old it is, and having new ones made."""

import asyncio
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.config import Config
from penstock.pipeline_figures import PipelineFigures
from penstock.web.analytics.parts import PARTS, Part, folder_of, read_part
from penstock.web.analytics.pipeline_link import NoPipeline, PipelineLink
from penstock.web.analytics.refresh import Refresh, RefreshStatus
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext
from penstock.web.api.guard import requires
from penstock.web.api.problems import Problem, described
from penstock.web.api.schema import analytics as schema
from penstock.web.api.tokens import Role
from penstock.web.routes import read_pipeline_figures

_ELSEWHERE = "The lake is not on this machine's disk; ask the tables where it is."
_NOT_YET = "The pipeline has not made these figures yet."
_NOT_RUNNING = "No pipeline runs on this data folder: `penstock up` and `penstock pipeline run --every TIME` have one."


def router(context: ApiContext) -> APIRouter:
    """GET /analytics, GET /analytics/{part}, POST /analytics/refresh."""
    routes = APIRouter(tags=["analytics"])
    # As they were at the start, like all places on the disk.
    config = context.config.config
    folder = folder_of(config.lake_location)
    link = PipelineLink(config.server.data_dir)
    refresh = Refresh(link, context.now)

    def age_s(part: Part) -> int:
        return max(0, int(context.now() - part.as_of.timestamp()))

    def show_age(name: str, part: Part | None) -> dict[str, Any]:
        as_of = None if part is None else _rfc3339(part.as_of.timestamp())
        return {"part": name, "as_of": as_of, "age_s": None if part is None else age_s(part)}

    @routes.get("/analytics", response_model=schema.Analytics)
    async def get_analytics(request: Request) -> Response:
        """Which figures there are, how old they are, and whether new ones can be asked for."""

        def look() -> tuple[dict[str, Part | None], PipelineFigures | None]:
            found = {name: None if folder is None else read_part(folder, name) for name in PARTS}
            return found, read_pipeline_figures(config.server.data_dir)

        parts, figures = await asyncio.to_thread(look)
        answer = {
            "parts": [show_age(name, part) for name, part in parts.items()],
            "refresh": _show_refresh(refresh.status),
            "pipeline": _show_pipeline(figures or PipelineFigures(), is_running=await link.is_there()),
        }
        return json_answer(request, answer)

    @routes.get(
        "/analytics/{part}",
        response_model=schema.AnalyticsPart,
        responses=described(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    )
    async def get_analytics_part(request: Request, part: schema.PartName) -> Response:
        """A part of the report, as the pipeline last made it, with the report's charts of it."""
        if folder is None:
            raise Problem(HTTPStatus.CONFLICT, _ELSEWHERE)
        found = await asyncio.to_thread(read_part, folder, part)
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, _NOT_YET)
        return json_answer(request, {**show_age(part, found), "figures": found.figures, "charts": found.charts})

    @routes.post(
        "/analytics/refresh",
        status_code=HTTPStatus.ACCEPTED,
        response_model=schema.RefreshAnswer,
        responses=described(HTTPStatus.CONFLICT),
        dependencies=[requires(Role.OPERATE)],
    )
    async def refresh_analytics(request: Request) -> Response:
        """Have the pipeline take in what has landed. `GET /analytics` tells what became of it."""
        if (reason := _why_none(config)) is not None:
            raise Problem(HTTPStatus.CONFLICT, reason)
        try:
            status = await refresh.ask()
        except NoPipeline:
            raise Problem(HTTPStatus.CONFLICT, _NOT_RUNNING) from None
        return json_answer(request, _show_refresh(status), HTTPStatus.ACCEPTED)

    return routes


def _why_none(config: Config) -> str | None:
    """Why no pipeline takes in the facts of this server here, by its configuration; None: one may."""
    if not config.facts.enabled:
        return "facts.enabled is false: nothing is told to the tables."
    return None if config.ship.to is None else "Facts are shipped to a lake elsewhere (ship.to)."


def _show_refresh(status: RefreshStatus) -> dict[str, Any]:
    return {
        "state": status.state.value,
        "words": status.words,
        "asked_at": _rfc3339(status.asked_at),
        "ended_at": _rfc3339(status.ended_at),
    }


def _show_pipeline(figures: PipelineFigures, *, is_running: bool) -> dict[str, Any]:
    return {
        "is_running": is_running,
        "runs": figures.runs,
        "failures": figures.failures,
        "last_run_at": _rfc3339(figures.succeeded_at),
        "last_run_s": figures.run_seconds,
        "lag_s": figures.lag_seconds,
    }


def _rfc3339(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(round(seconds * 1_000_000))
