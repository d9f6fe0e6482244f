"""Pages of a list that changes while it is read.

Owns the order and the cursor. A cursor names the last item that was given, by its place in the order and not by a
count: who reads on misses nothing that stayed and sees nothing twice, whatever came and went meanwhile. That holds for
values that stay what they are; an item whose value grows may pass the cursor, in either direction.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

Item = TypeVar("Item")
Value = str | int | float
Place = tuple[Value | None, str]
"""What an item is sorted by, and its id, which makes places distinct."""

_PLACE: Final = msgspec.json.Decoder(tuple[str | int | float | None, str])


class Page(NamedTuple, Generic[Item]):
    """Some items, and where to go on."""

    items: list[Item]
    next_cursor: str | None
    """None: these are the last ones."""


def page_of_places(
    places: Iterable[Place], limit: int, cursor: str | None, *, is_descending: bool = False
) -> Page[Place]:
    """Up to `limit` places behind the cursor, by value and then by id; those without a value come last.

    A cursor that another order gave raises ValueError.
    """
    after = None if cursor is None else _place_of(cursor)
    try:
        known, unknown = _behind(places, after, is_descending=is_descending)
        # A whole sort in C is faster than keeping the smallest few in Python: 4 ms for 10,000.
        known.sort(reverse=is_descending)
    except TypeError:
        raise ValueError("the cursor is of another order") from None
    found: list[Place] = [*known[: limit + 1]]
    if len(found) <= limit and unknown:
        unknown.sort()
        found += [(None, item_id) for item_id in unknown[: limit + 1 - len(found)]]
    # There was one more than asked for.
    next_cursor = _cursor_of(found[limit - 1]) if len(found) > limit else None
    return Page(found[:limit], next_cursor)


def _behind(
    places: Iterable[Place], after: Place | None, *, is_descending: bool
) -> tuple[list[tuple[Value, str]], list[str]]:
    """What comes after a place: those with a value, and the ids of those without."""
    known = [(value, item_id) for value, item_id in places if value is not None]
    unknown = [item_id for value, item_id in places if value is None]
    if after is None:
        return known, unknown
    value, last_id = after
    if value is None:
        return [], [item_id for item_id in unknown if item_id > last_id]
    # Values of one order are of one type; those of a cursor may not be, and then Python says so.
    begin = value, last_id
    if is_descending:
        return [place for place in known if place < begin], unknown
    return [place for place in known if place > begin], unknown


def _cursor_of(place: Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _place_of(cursor: str) -> Place:
    try:
        return _PLACE.decode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise ValueError("not a cursor of this list") from None
