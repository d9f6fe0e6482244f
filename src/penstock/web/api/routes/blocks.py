"""Who is kept out: listed, added, let in again."""

from http import HTTPStatus
from typing import Any, assert_never

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.web.api import models
from penstock.web.api.answers import json_answer, rfc3339
from penstock.web.api.context import ApiContext
from penstock.web.api.guard import requires
from penstock.web.api.paging import DEFAULT_ITEMS, Cursor, Limit, listed, page_by
from penstock.web.api.problems import Problem, described
from penstock.web.api.saving import Saving
from penstock.web.api.tokens import Role
from penstock.web.kept_lists.block_list import Block


def router(context: ApiContext) -> APIRouter:
    """GET and POST /blocks, DELETE /blocks/{id}."""
    routes = APIRouter(tags=["blocks"])
    blocks = context.blocks
    saving = Saving(blocks.save)

    @routes.get("/blocks", response_model=models.Items[models.Block], responses=described(HTTPStatus.NOT_FOUND))
    async def list_blocks(request: Request, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None) -> Response:
        """Everybody who is kept out now."""
        return json_answer(request, listed(lambda: page_by(blocks.blocks(), _id_of, _id_of, limit, cursor), show_block))

    @routes.post(
        "/blocks",
        status_code=HTTPStatus.CREATED,
        response_model=models.Block,
        responses=described(HTTPStatus.CONFLICT, HTTPStatus.INSUFFICIENT_STORAGE),
        dependencies=[requires(Role.OPERATE)],
    )
    async def add_block(request: Request, order: models.NewAddressBlock | models.NewSubjectBlock) -> Response:
        """Keep an address or a subject out for a while, and end what it has open."""
        if blocks.is_full:
            raise Problem(HTTPStatus.CONFLICT, "There are too many blocks.")
        match order:
            case models.NewAddressBlock():
                added = blocks.add(order.address, None, order.for_s)
            case models.NewSubjectBlock():
                added = blocks.add(None, order.subject, order.for_s)
            case _:
                assert_never(order)
        await saving.save()
        return json_answer(request, show_block(added), HTTPStatus.CREATED)

    @routes.delete(
        "/blocks/{id:path}",
        status_code=HTTPStatus.NO_CONTENT,
        responses=described(HTTPStatus.NOT_FOUND, HTTPStatus.INSUFFICIENT_STORAGE),
        dependencies=[requires(Role.OPERATE)],
    )
    async def lift_block(id: str) -> Response:  # noqa: A002 - its name in the path
        """Let somebody in again."""
        if not blocks.lift(id):
            raise Problem(HTTPStatus.NOT_FOUND, "There is no such block.")
        await saving.save()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return routes


def show_block(block: Block) -> dict[str, Any]:
    """A block as it is answered."""
    return {
        "id": block.id,
        "address": block.address,
        "subject": block.subject,
        "ends_at": rfc3339(round(block.ends_at * 1_000_000)),
    }


def _id_of(block: Block) -> str:
    return block.id
