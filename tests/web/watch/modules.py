"""The player's modules in a real Chromium, without a server: files of the package, and what a test puts beside them."""

import mimetypes
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Page, Route

from tests.support.browser import browser

ORIGIN: Final = "http://localhost"


@contextmanager
def page_with_modules() -> Iterator[Page]:
    """An empty page at whose address the modules are."""
    static = files("penstock.web.watch") / "static"

    def answer(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path.startswith("/watch/"):
            name = path.removeprefix("/watch/")
            file = static / name
            if file.is_file():
                route.fulfill(body=file.read_bytes(), content_type=mimetypes.guess_type(name)[0])
            else:
                route.fulfill(status=404)
        else:
            route.fulfill(body="<!doctype html><title>empty</title>", content_type="text/html")

    with browser() as chromium:
        page = chromium.page()
        page.route(f"{ORIGIN}/**", answer)
        page.goto(f"{ORIGIN}/")
        yield page


def run(page: Page, module: str, body: str, argument: Any = None) -> Any:
    """What a function says whose `m` is the module; the body may await."""
    return page.evaluate(
        f"async (a) => {{ const m = await import('/watch/{module}'); {body} }}",
        argument,
    )
