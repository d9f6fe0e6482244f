"""What went wrong with streams, lately and now."""

from http import HTTPStatus
from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext
from penstock.web.api.paging import DEFAULT_ITEMS, App, Cursor, Limit, Stream, listed, page_by, sorted_by
from penstock.web.api.problems import described
from penstock.web.incidents.incidents import Incident
from penstock.web.live.pages import Page

Sort = Annotated[str, sorted_by("started_at", "ended_at", "kind", "app", "stream")]


def router(context: ApiContext) -> APIRouter:
    """GET /incidents."""
    routes = APIRouter(tags=["incidents"])

    @routes.get("/incidents", response_model=models.Items[models.Incident], responses=described(HTTPStatus.NOT_FOUND))
    async def list_incidents(
        request: Request,
        *,
        limit: Limit = DEFAULT_ITEMS,
        cursor: Cursor = None,
        app: App = None,
        stream: Stream = None,
        sort: Sort = "-started_at",
    ) -> Response:
        """Incidents that go on, and the last ones that are over."""

        def make_page() -> Page[Incident]:
            field = sort.removeprefix("-")
            incidents = context.happenings.incidents
            known = [*incidents.open, *incidents.ended]
            found = (each for each in known if app in (None, each.app) and stream in (None, each.stream))
            value_of = attrgetter(f"{field}_us" if field.endswith("_at") else field)
            id_of = attrgetter("incident_id")
            return page_by(found, value_of, id_of, limit, cursor, is_descending=sort.startswith("-"))

        return json_answer(request, listed(make_page, show_incident))

    return routes


def show_incident(incident: Incident) -> dict[str, Any]:
    """An incident as it is answered."""
    return {
        "kind": incident.kind,
        "app": incident.app,
        "stream": incident.stream,
        "started_at": rfc3339(incident.started_at_us),
        "ended_at": None if incident.ended_at_us is None else rfc3339(incident.ended_at_us),
        "evidence": incident.evidence,
        "advice": incident.advice,
    }
