"""Parameters that all lists have, and a page as it is answered.

Owns their names and bounds. Order and cursor are known by `penstock.web.live.pages`.
"""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query

from penstock.web.api.problems import Problem
from penstock.web.live.pages import Page, page_of_places

MAX_ITEMS: Final = 1000
DEFAULT_ITEMS: Final = 100

Item = TypeVar("Item")
Limit = Annotated[int, Query(ge=1, le=MAX_ITEMS, description="Items of a page")]
Cursor = Annotated[
    str | None,
    Query(
        max_length=8192, pattern="^[A-Za-z0-9_-]+$", description="`next_cursor` of the page before, in the same order"
    ),
]
App = Annotated[str | None, Query(max_length=1024, description="Those of this app alone")]
Stream = Annotated[str | None, Query(max_length=1024, description="Those of streams with this name alone")]


def sorted_by(*names: str) -> Any:
    """The parameter of a list that can be sorted by some of its fields."""
    described = "The field to sort by, with a minus in front for the largest first"
    return Query(pattern=f"^-?({'|'.join(sorted(names))})$", description=described)


def page_by(
    items: Iterable[Item],
    value_of: Callable[[Item], Any],
    id_of: Callable[[Item], str],
    limit: int,
    cursor: str | None,
    *,
    is_descending: bool = False,
) -> Page[Item]:
    """A page of any items. A cursor of another list raises ValueError."""
    by_id = {id_of(item): item for item in items}
    places = [(value_of(item), item_id) for item_id, item in by_id.items()]
    found, next_cursor = page_of_places(places, limit, cursor, is_descending=is_descending)
    return Page([by_id[item_id] for _, item_id in found], next_cursor)


def listed(make_page: Callable[[], Page[Item]], show: Callable[[Item], dict[str, Any]]) -> dict[str, Any]:
    """A page as it is answered."""
    try:
        page = make_page()
    except ValueError:
        raise Problem(HTTPStatus.NOT_FOUND, "No page of this list, in this order, is behind that cursor.") from None
    return {"items": [show(item) for item in page.items], "next_cursor": page.next_cursor}
