"""A real Chromium, Debian's, driven by Playwright: pages as a person sees them.

Owns how it is started, and what every page is held to: no request to another host, and no error on the console.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, sync_playwright

_LOCAL_HOSTS = frozenset(("127.0.0.1", "localhost", "[::1]", "::1", "", None))
_FLAGS = [
    "--no-sandbox",  # tests may run as root, where Chromium has no sandbox
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_PLAYS_UNASKED = "--autoplay-policy=no-user-gesture-required"


@dataclass
class Seen:
    """What pages of a context did that they may not."""

    console_errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)


@dataclass
class Browser:
    """One browser context, empty at first."""

    context: BrowserContext
    seen: Seen

    def page(self) -> Page:
        """A new page, whose errors and requests are watched."""
        page = self.context.new_page()
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.seen.console_errors.append(str(error)))
        page.on("request", self._on_request)
        return page

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.seen.console_errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme in ("http", "https", "ws", "wss") and url.hostname not in _LOCAL_HOSTS:
            self.seen.foreign_requests.append(request.url)


@contextmanager
def browser(
    *,
    width: int = 1280,
    height: int = 800,
    is_dark: bool = False,
    ignores_certificates: bool = False,
    plays_unasked: bool = True,
) -> Iterator[Browser]:
    """A Chromium without a window, until the block ends. Unless it `plays_unasked`, sound waits for a click."""
    program = shutil.which("chromium")
    assert program is not None, "no chromium on this machine: make setup installs it"
    with sync_playwright() as playwright:
        flags = [*_FLAGS, _PLAYS_UNASKED] if plays_unasked else _FLAGS
        chromium = playwright.chromium.launch(executable_path=program, headless=True, args=flags)
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if is_dark else "light",
            ignore_https_errors=ignores_certificates,
        )
        try:
            yield Browser(context, Seen())
        finally:
            context.close()
            chromium.close()
