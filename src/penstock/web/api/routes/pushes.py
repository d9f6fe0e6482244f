"""Servers that streams are sent on to: listed, added, taken out."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.errors import MalformedInput
from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext
from penstock.web.api.guard import requires
from penstock.web.api.paging import DEFAULT_ITEMS, Cursor, Limit, listed, page_by
from penstock.web.api.problems import Problem, described
from penstock.web.api.saving import Saving
from penstock.web.api.tokens import Role
from penstock.web.kept_lists.push_list import AddedPush
from penstock.web.live.pushes import OpenPush


class _Target(NamedTuple):
    name: str
    streams: tuple[str, ...]
    address: str
    origin: str


def router(context: ApiContext) -> APIRouter:
    """GET and POST /pushes, DELETE /pushes/{name}."""
    routes = APIRouter(tags=["pushes"])
    added = context.pushes
    saving = Saving(added.save)

    def targets() -> Iterator[_Target]:
        configured = {each.name: each for each in context.config.config.push}
        for name, each in configured.items():
            yield _Target(name, each.streams, each.address.shown, "configuration")
        for other in added.pushes:
            if other.name not in configured:
                yield _Target(other.name, tuple(other.streams), other.address.shown, "api")

    def show(target: _Target) -> dict[str, Any]:
        return {
            "name": target.name,
            "streams": list(target.streams),
            "address": target.address,
            "origin": target.origin,
            "sessions": [show_session(each) for each in context.happenings.pushes.of_target(target.name)],
        }

    @routes.get("/pushes", response_model=models.Items[models.Push], responses=described(HTTPStatus.NOT_FOUND))
    async def list_pushes(request: Request, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None) -> Response:
        """Targets that streams are sent on to, each with what it is sent now. Addresses are shown without keys."""
        return json_answer(request, listed(lambda: page_by(targets(), _name_of, _name_of, limit, cursor), show))

    @routes.post(
        "/pushes",
        status_code=HTTPStatus.CREATED,
        response_model=models.Push,
        responses=described(HTTPStatus.CONFLICT, HTTPStatus.INSUFFICIENT_STORAGE),
        dependencies=[requires(Role.ADMIN)],
    )
    async def add_push(request: Request, order: models.NewPush | models.NewKeyedPush) -> Response:
        """Send streams to a server from now on, those that are live with them. It stays until it is taken out."""
        if order.name in added or any(order.name == each.name for each in context.config.config.push):
            raise Problem(HTTPStatus.CONFLICT, "There is a push of that name.")
        if added.is_full:
            raise Problem(HTTPStatus.CONFLICT, "There are too many pushes.")
        push = AddedPush(order.name, order.streams, order.url, getattr(order, "key", None))
        try:
            address = push.address
        except MalformedInput as fault:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"The url {fault.detail}.") from None
        added.add(push)
        await saving.save()
        target = _Target(push.name, tuple(push.streams), address.shown, "api")
        return json_answer(request, show(target), HTTPStatus.CREATED)

    @routes.delete(
        "/pushes/{name}",
        status_code=HTTPStatus.NO_CONTENT,
        responses=described(HTTPStatus.NOT_FOUND, HTTPStatus.INSUFFICIENT_STORAGE, HTTPStatus.CONFLICT),
        dependencies=[requires(Role.ADMIN)],
    )
    async def remove_push(name: str) -> Response:
        """Send nothing there any more. Those of the configuration are taken out there, and by a reload."""
        if not added.remove(name):
            if any(name == each.name for each in context.config.config.push):
                raise Problem(HTTPStatus.CONFLICT, "It is in the configuration: take it out there, and reload.")
            raise Problem(HTTPStatus.NOT_FOUND, "There is no such push.")
        await saving.save()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return routes


def show_session(each: OpenPush) -> dict[str, Any]:
    """A stream that is sent to a target, as it is answered."""
    value = each.value
    return {
        "app": value.app,
        "stream": value.stream,
        "state": value.state,
        "started_at": rfc3339(value.started_at_us),
        "attempts": value.attempts,
        "last_error": value.last_error,
        "sent_bytes": value.sent_bytes,
        "lag_ms": value.lag_ms,
        "skips": value.skips,
        "worker": each.worker,
    }


def _name_of(target: _Target) -> str:
    return target.name
