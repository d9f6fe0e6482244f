"""A real server with publishers, and watch pages in a real Chromium: what a viewer has before them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple

from playwright.sync_api import Frame, Page

from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import RunningProgram, running

WITHIN_MS: Final = 30_000
PLAYER: Final = "document.querySelector('penstock-player')"

LOOK: Final = """
(video) => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [32, 18];
  const context = canvas.getContext("2d");
  context.drawImage(video, 0, 0, 32, 18);
  const { data } = context.getImageData(0, 0, 32, 18);
  return data.filter((_, at) => at % 4 !== 3).reduce((all, value) => Math.max(all, value), 0);
}
"""
"""JavaScript: the brightest of the picture that a <video> shows, 0 to 255."""


class Watched(NamedTuple):
    """A server, and where its pages are."""

    server: PenstockServer
    url: str
    folder: Path

    def page_of(self, name: str) -> str:
        return f"{self.url}/live/{name}"

    @contextmanager
    def publishing(self, name: str, *options: str) -> Iterator[RunningProgram]:
        """The test pattern, with a sound, as `penstock publish` has it, from the moment that the server has it too."""
        pattern = ["--test-pattern", "--size", "320x180", "--bitrate", "300k", *options]
        command = [sys.executable, "-m", "penstock", "publish", self.server.url(name), *pattern]
        before = len([line for line in self.server.log_lines() if str(line["msg"]).startswith("publish started")])
        with running(command, self.folder / f"{before}.log") as program:
            self.server.wait_for_line("publish started", before + 1)
            yield program


@contextmanager
def watched(folder: Path, config: str = "", options: Sequence[str] = ()) -> Iterator[Watched]:
    """A server that serves pages and media, until the block ends."""
    with penstock_server(folder, ["--http", "127.0.0.1:0", *options], config) as server:
        yield Watched(server, f"http://{server.wait_for_line('server started')['http']}", folder)


def wait_for(page: Page | Frame, condition: str) -> None:
    """Return once JavaScript says so of the page's player, which is `e`; `p` is its Player."""
    # Playwright's own waiting makes functions of text, which the page's policy forbids.
    page.evaluate(
        f"""async () => {{
            const ends_ms = performance.now() + {WITHIN_MS};
            for (;;) {{
                const e = {PLAYER}, p = e?.player;
                if (p && ({condition})) return;
                if (performance.now() > ends_ms) throw new Error(`${{p?.state}} ${{JSON.stringify(p?.stats)}}`);
                await new Promise((resolve) => setTimeout(resolve, 50));
            }}
        }}"""
    )


def wait_for_picture(page: Page | Frame) -> None:
    """Return once it plays, and what it shows is not black."""
    wait_for(page, f"p.state === 'playing' && e.video.currentTime > 0 && ({LOOK})(e.video) > 100")


def told(page: Page | Frame, expression: str) -> Any:
    """What JavaScript says of the page's player `e`, or of its Player `p`."""
    return page.evaluate(f"(() => {{ const e = {PLAYER}, p = e.player; return {expression}; }})()")


def words(page: Page | Frame) -> str:
    """What stands over the picture."""
    return str(told(page, "e.shadowRoot.querySelector('.words').textContent"))


@contextmanager
def another_site(html: str) -> Iterator[str]:
    """A page at another origin; its address."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
