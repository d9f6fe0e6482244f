"""The page in a real Chromium beside a real server: how tests open it, sign in and wait."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Response

from tests.support.browser import Browser, browser
from tests.support.processes import RunningProgram, running
from tests.web.api.api_server import TOKEN, ApiServer

WITHIN_MS = 20_000
PENSTOCK = (sys.executable, "-m", "penstock")
VIEWS = ("streams", "recordings", "events", "access", "settings", "server", "start")


@contextmanager
def published(api: ApiServer, name: str, folder: Path, *options: str) -> Iterator[RunningProgram]:
    """A small test pattern under this name, once the API knows what it shows."""
    publish = [*PENSTOCK, "publish", api.server.url(name), "--test-pattern", "--size", "128x72", *options]
    with running(publish, folder / "publish.log") as program:
        until(lambda: any(each["stream"] == name and each["fps"] > 0 for each in api.get("/streams")["items"]))
        yield program


@contextmanager
def watched(api: ApiServer, name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """A viewer of it, as the API tells."""
    known = {each["view_id"] for each in api.get("/viewers")["items"]}
    play = [*PENSTOCK, "play", api.server.url(name), "--output", str(folder / "played.flv")]

    def found() -> list[dict[str, Any]]:
        return [each for each in api.get("/viewers")["items"] if each["view_id"] not in known]

    with running(play, folder / "play.log"):
        yield until(found)[0]


def until(look: Callable[[], Any], within_s: float = 20.0) -> Any:
    ends_at = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < ends_at, "it did not happen"
        time.sleep(0.05)
    return found


@contextmanager
def opened(
    api: ApiServer, path: str = "#/streams", *, token: str | None = TOKEN, width: int = 1280, is_dark: bool = False
) -> Iterator[tuple[Browser, Page]]:
    """The page, signed in by session storage as after a reload, or as a reader on this machine."""
    with browser(width=width, height=800 if width > 500 else 844, is_dark=is_dark) as seen:
        page = seen.page()
        page.set_default_timeout(WITHIN_MS)
        if token is not None:
            page.add_init_script(f"sessionStorage.setItem('penstock.token', {json.dumps(token)})")
        page.goto(f"{api.url}/{path}")
        yield seen, page


def next_answer(page: Page, path: str) -> Any:
    """What the API says next to the page, as JSON."""

    def is_it(response: Response) -> bool:
        return response.status == 200 and f"/api/v1{path}" in response.url

    with page.expect_response(is_it) as waiting:
        pass
    return waiting.value.json()
