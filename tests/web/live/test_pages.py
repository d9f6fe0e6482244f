"""Pages of places: order, cursors, and lists that change while they are read."""

import pytest

from penstock.web.live.pages import Place, page_of_places


def read_all(places: list[Place], limit: int, *, is_descending: bool = False) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        found, cursor = page_of_places(places, limit, cursor, is_descending=is_descending)
        pages.append([item_id for _, item_id in found])
        if cursor is None:
            return pages


PLACES: list[Place] = [(3, "c"), (1, "b"), (None, "x"), (1, "a"), (2, "d"), (None, "w")]


def test_places_are_in_the_order_of_their_values_and_then_of_their_ids() -> None:
    assert read_all(PLACES, 10) == [["a", "b", "d", "c", "w", "x"]]


def test_the_largest_may_come_first_and_those_without_a_value_still_come_last() -> None:
    assert read_all(PLACES, 10, is_descending=True) == [["c", "d", "b", "a", "w", "x"]]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("is_descending", [True, False])
def test_pages_joined_are_the_list(limit: int, is_descending: bool) -> None:
    (whole,) = read_all(PLACES, 10, is_descending=is_descending)
    pages = read_all(PLACES, limit, is_descending=is_descending)
    assert [item_id for page in pages for item_id in page] == whole
    assert all(len(page) == limit for page in pages[:-1])


def test_nothing_is_one_empty_page() -> None:
    assert read_all([], 5) == [[]]


def test_what_goes_between_two_pages_moves_nothing_else() -> None:
    _, cursor = page_of_places([(1, "a"), (2, "b"), (3, "c"), (4, "d")], 2, None)
    found, _ = page_of_places([(3, "c"), (4, "d")], 2, cursor)
    assert found == [(3, "c"), (4, "d")]


@pytest.mark.parametrize("cursor", ["", "x", "????", "W10", "WzEsMV0", "e30"])
def test_a_text_that_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        page_of_places(PLACES, 2, cursor)


def test_a_cursor_of_another_order_is_refused() -> None:
    _, cursor = page_of_places([("a", "a"), ("b", "b")], 1, None)
    with pytest.raises(ValueError, match="another order"):
        page_of_places(PLACES, 2, cursor)
