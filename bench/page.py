"""What the page costs: its first paint, and 500 streams that change once a second, in the browser and in web.

A real web process with this program in the place of its workers, which tell samples of all streams once a second, and a
real Chromium that shows them. First paint is the browser's own figure, the median of several loads without a cache;
bytes are those of all files and answers that had come by then, and by the first cards, the list of streams included.
CPU is of all processes of the browser, Playwright's driver among them, and of the web process, as shares of a core over
the time; a busy machine makes wall times longer and leaves CPU nearly as it is.

Run: `python -m bench.page [--streams 500] [--seconds 20] [--loads 5] [--json FILE]`.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from playwright.sync_api import Page
from tests.support.browser import browser
from tests.web.web_process import Web, send_message, web_process

from bench.usage import cpu_s
from penstock.control.live import AudioTrack, Live, LivePublisher, LiveStreamState, VideoTrack

_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
_BYTES: Final = (
    "(until) => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
    ".filter((each) => each.responseEnd <= until).reduce((sum, each) => sum + each.encodedBodySize, 0)"
)


@dataclass(frozen=True, slots=True)
class Figures:
    """One run."""

    streams: int
    first_paint_ms: float
    first_cards_ms: float
    first_paint_bytes: int
    first_cards_bytes: int
    browser_share: float
    web_share: float


class Samples:
    """Streams whose figures change once a second, told as a worker does, for the length of the block."""

    def __init__(self, web: Web, streams: int) -> None:
        self._web = web
        self._streams = streams
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._began_us = time.time_ns() // 1000

    def __enter__(self) -> "Samples":
        self._tell(0)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        second = 0
        while not self._is_over.wait(1.0):
            second += 1
            self._tell(second)

    def _tell(self, second: int) -> None:
        streams = [self._stream(number, second) for number in range(self._streams)]
        send_message(self._web.worker, Live(second == 0, [], [], streams, [], [], [], []))

    def _stream(self, number: int, second: int) -> LiveStreamState:
        publisher = LivePublisher(f"p{number}", f"c{number}", f"192.0.2.{number % 250}:5000", "rtmp", "bench", None)
        return LiveStreamState(
            "live",
            f"camera-{number:03}",
            self._began_us - number * 1_000_000,
            publisher,
            VideoTrack("H.264 AVC", 1280, 720),
            AudioTrack("AAC", 48_000, 2),
            number % 7 == 0,
            2_500_000 + (number * 7919 + second * 104_729) % 1_000_000,
            25.0 + (number + second) % 10 / 10,
            2000,
            float((number + second) % 30),
            second * 300_000,
        )


def measure(streams: int, seconds: float, loads: int) -> Figures:
    """All of it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
        web_process(Path(folder), listener=listener) as web,
    ):
        host, port = listener.getsockname()[:2]
        url = f"http://{host}:{port}/#/streams"
        with Samples(web, streams):
            paints, cards, paint_bytes, card_bytes = zip(*(_load(url) for _ in range(loads)), strict=True)
            with browser() as seen:
                page = seen.page()
                page.goto(url)
                _wait_for_cards(page, streams)
                page.wait_for_timeout(3000)
                before, web_before, own_before = cpu_s(os.getpid()), cpu_s(web.process.pid), time.process_time()
                began_at = time.monotonic()
                page.wait_for_timeout(seconds * 1000)
                took_s = time.monotonic() - began_at
                web_cpu_s = cpu_s(web.process.pid) - web_before
                browser_cpu_s = cpu_s(os.getpid()) - before - web_cpu_s - (time.process_time() - own_before)
    return Figures(
        streams,
        round(statistics.median(paints), 1),
        round(statistics.median(cards), 1),
        max(paint_bytes),
        max(card_bytes),
        round(browser_cpu_s / took_s, 4),
        round(web_cpu_s / took_s, 4),
    )


def _load(url: str) -> tuple[float, float, int, int]:
    with browser() as seen:
        page = seen.page()
        page.goto(url)
        _wait_for_cards(page, 1)
        paint, cards = page.evaluate(_PAINT), page.evaluate("performance.now()")
        return paint, cards, page.evaluate(_BYTES, paint), page.evaluate(_BYTES, cards)


def _wait_for_cards(page: Page, number: int) -> None:
    # The page's policy forbids what wait_for_function does: to make text a script.
    page.locator("article").nth(number - 1).wait_for(state="attached", timeout=30_000)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="What the page costs.")
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    figures = measure(asked.streams, asked.seconds, asked.loads)
    text = json.dumps(asdict(figures), indent=1)
    print(text)
    if asked.json is not None:
        asked.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
