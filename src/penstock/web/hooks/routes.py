"""Dead letters over the API: listed, and sent again."""

import sqlite3
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.guard import requires
from penstock.web.api.paging import DEFAULT_ITEMS, Cursor, Limit
from penstock.web.api.problems import Problem, described
from penstock.web.api.tokens import Role
from penstock.web.hooks.hooks import Hooks
from penstock.web.hooks.store import DeadLetter as Letter

_MAX_DIGITS: Final = 18
_MAX_IDS: Final = 500
_PATH: Final = "/hooks/dead-letters"
_LISTING: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)


class DeadLetter(BaseModel):
    """A message that a receiver did not take in a day, or that had no room."""

    id: str
    """`webhook-id`."""
    hook: str | None
    """Scheme and host of its URL; null: the hook is no longer configured, and the letter cannot be sent."""
    type: str
    app: str | None
    stream: str | None
    accepted_at: str
    dead_at: str
    attempts: int
    reason: str


class Replay(BaseModel):
    """Which letters to send again."""

    ids: list[Annotated[str, Field(max_length=64)]] | None = Field(None, max_length=_MAX_IDS)
    """Null: all."""


class Replayed(BaseModel):
    """What became of it."""

    replayed: int


def router(hooks: Hooks) -> APIRouter:
    """GET /hooks/dead-letters, POST /hooks/dead-letters/replay."""
    routes = APIRouter(tags=["hooks"])
    unavailable = described(HTTPStatus.SERVICE_UNAVAILABLE)

    @routes.get(_PATH, response_model=models.Items[DeadLetter], responses=described(*_LISTING))
    async def list_dead_letters(request: Request, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None) -> Response:
        """Messages of webhooks that were given up, the newest first. They are kept for 30 days."""
        if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _MAX_DIGITS):
            raise Problem(HTTPStatus.NOT_FOUND, "No page of this list is behind that cursor.")
        try:
            letters = await hooks.dead_letters(None if cursor is None else int(cursor), limit + 1)
        except (sqlite3.Error, OSError):
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "The messages cannot be read.") from None
        page = letters[:limit]
        next_cursor = str(page[-1].number) if len(letters) > limit else None
        items = [_show(letter, hooks.name_of(letter.hook)) for letter in page]
        return json_answer(request, {"items": items, "next_cursor": next_cursor})

    @routes.post(
        f"{_PATH}/replay",
        status_code=HTTPStatus.ACCEPTED,
        response_model=Replayed,
        responses=unavailable,
        dependencies=[requires(Role.OPERATE)],
    )
    async def replay_dead_letters(request: Request, order: Annotated[Replay | None, Body()] = None) -> Response:
        """Send letters again, behind what waits for their receivers; all, unless told which."""
        try:
            count = await hooks.replay(None if order is None or order.ids is None else set(order.ids))
        except (sqlite3.Error, OSError):
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "The messages cannot be read.") from None
        return json_answer(request, {"replayed": count}, HTTPStatus.ACCEPTED)

    return routes


def _show(letter: Letter, name: str | None) -> dict[str, Any]:
    app, slash, stream = letter.lane.partition("/")
    return {
        "id": letter.id,
        "hook": name,
        "type": letter.kind,
        "app": app if slash else None,
        "stream": stream if slash else None,
        "accepted_at": rfc3339(round(letter.accepted_at * 1_000_000)),
        "dead_at": rfc3339(round(letter.dead_at * 1_000_000)),
        "attempts": letter.attempts,
        "reason": letter.reason,
    }
