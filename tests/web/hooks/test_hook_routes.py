"""Dead letters over the API, without sockets."""

import sqlite3
from collections.abc import Collection
from typing import Any, cast

import httpx
import pytest

from penstock.web.api.app import Api
from penstock.web.api.guard import GuardSettings
from penstock.web.hooks.hooks import Hooks
from penstock.web.hooks.routes import router
from penstock.web.hooks.store import DeadLetter
from tests.web.api.calling import KEYS, Caller

LETTERS = [
    DeadLetter(
        number, "h" if number > 1 else "gone", f"msg_{number}", lane, "play_stopped", 100.25, 200.5, 36, "status 500"
    )
    for number, lane in ((3, "live/a/b"), (2, ""), (1, "live/a"))
]


class FakeHooks:
    def __init__(self) -> None:
        self.replayed: list[Collection[str] | None] = []
        self.is_broken = False

    async def dead_letters(self, before: int | None, limit: int) -> list[DeadLetter]:
        if self.is_broken:
            raise sqlite3.OperationalError("disk I/O error")
        return [letter for letter in LETTERS if before is None or letter.number < before][:limit]

    async def replay(self, ids: Collection[str] | None) -> int:
        if self.is_broken:
            raise sqlite3.OperationalError("disk I/O error")
        self.replayed.append(ids)
        return 7

    def name_of(self, key: str) -> str | None:
        return "https://hooks.example" if key == "h" else None


@pytest.fixture
def hooks() -> FakeHooks:
    return FakeHooks()


def ask(hooks: FakeHooks, tmp_path: Any, method: str, path: str, role: str = "admin", **request: Any) -> httpx.Response:
    caller = Caller(tmp_path)
    caller.api = Api(caller.context, GuardSettings(keys=KEYS), [router(cast("Hooks", hooks))])
    return caller.ask(f"/api/v1/hooks/dead-letters{path}", method, role=role, **request)


def test_letters_are_listed_page_by_page(hooks: FakeHooks, tmp_path: Any) -> None:
    page = ask(hooks, tmp_path, "GET", "?limit=2").json()
    assert page["items"][0] == {
        "id": "msg_3",
        "hook": "https://hooks.example",
        "type": "play_stopped",
        "app": "live",
        "stream": "a/b",
        "accepted_at": "1970-01-01T00:01:40.250Z",
        "dead_at": "1970-01-01T00:03:20.500Z",
        "attempts": 36,
        "reason": "status 500",
    }
    assert (page["items"][1]["app"], page["items"][1]["stream"]) == (None, None)
    rest = ask(hooks, tmp_path, "GET", f"?limit=2&cursor={page['next_cursor']}").json()
    assert [(each["id"], each["hook"]) for each in rest["items"]] == [("msg_1", None)]
    assert rest["next_cursor"] is None


def test_a_cursor_of_another_list_is_refused(hooks: FakeHooks, tmp_path: Any) -> None:
    assert ask(hooks, tmp_path, "GET", "?cursor=abc").status_code == 404


@pytest.mark.parametrize(
    ("request_", "ids"),
    [({}, None), ({"json": {"ids": None}}, None), ({"json": {"ids": ["msg_1", "msg_1"]}}, {"msg_1"})],
    ids=["nothing", "all", "some"],
)
def test_letters_are_replayed_all_or_those_that_are_named(
    hooks: FakeHooks, tmp_path: Any, request_: dict[str, Any], ids: set[str] | None
) -> None:
    answer = ask(hooks, tmp_path, "POST", "/replay", **request_)
    assert (answer.status_code, answer.json()) == (202, {"replayed": 7})
    assert hooks.replayed == [ids]


def test_who_may_only_read_replays_nothing(hooks: FakeHooks, tmp_path: Any) -> None:
    assert ask(hooks, tmp_path, "POST", "/replay", "read").status_code == 403
    assert ask(hooks, tmp_path, "GET", "", "read").status_code == 200
    assert hooks.replayed == []


def test_a_disk_that_fails_is_told(hooks: FakeHooks, tmp_path: Any) -> None:
    hooks.is_broken = True
    assert [ask(hooks, tmp_path, *each).status_code for each in (("GET", ""), ("POST", "/replay"))] == [503, 503]
