"""The page as a person sees it, as pictures: with several streams, in both themes, on a wide screen and on a phone.

They are the README's and the documentation's where PICTURES_TO names a folder; else they are looked at by the test
alone, for what may not be missing in them.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.processes import find_program, run_to_end, running
from tests.web.api.api_server import ApiServer, api_server
from tests.web.page.pages import opened, until

MAX_BYTES = 300_000
FFMPEG = (find_program("ffmpeg", "ffmpeg"), "-nostdin", "-loglevel", "error")
PENSTOCK = (sys.executable, "-m", "penstock")
SOURCES = {
    "live/backstage": (
        "gradients=s=640x360:r=15:speed=0.02:type=circular:seed=11:nb_colors=3:c0=0x0f172a:c1=0x2563eb:c2=0xbfdbfe"
    ),
    "live/main-stage": (
        "gradients=s=640x360:r=15:speed=0.02:type=spiral:seed=7:nb_colors=4"
        ":c0=0x0b6b86:c1=0xf2b544:c2=0x7b2d5b:c3=0xe86a4a"
    ),
    "news/desk": "smptehdbars=s=640x360:r=15",
    "sport/court-2": "gradients=s=640x360:r=15:speed=0.02:c0=0x1b5e20:c1=0xc5e1a5:nb_colors=2:type=radial:seed=3",
    "studio/one": "testsrc2=s=640x360:r=15",
    "studio/slow-keys": "mandelbrot=s=640x360:r=15:start_x=-1.25:start_y=0.02:start_scale=0.05:end_scale=0.04",
}
VIEWERS = {"live/main-stage": 5, "news/desk": 2, "studio/one": 1}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("pictures")
    clips = {name: clip(folder, name) for name in SOURCES}
    with api_server(folder, ["--record", "live/*", "studio/one"]) as served, ExitStack() as stack:
        for name, source in clips.items():
            stack.enter_context(running(publishing(served, name, source), source.with_suffix(".publish.log")))
        until(lambda: len([each for each in served.get("/streams")["items"] if each["video"]]) == len(SOURCES))
        for name, viewers in VIEWERS.items():
            for number in range(viewers):
                output = folder / f"{name.replace('/', '-')}-{number}.flv"
                play = [*PENSTOCK, "play", address(served, name), "--output", str(output)]
                stack.enter_context(running(play, output.with_suffix(".log")))
        until(lambda: len(served.get("/viewers")["items"]) == sum(VIEWERS.values()), 40)
        until(lambda: all(each["verdict"] != "not sampled yet" for each in served.get("/streams")["items"]))
        yield served


def address(api: ApiServer, name: str) -> str:
    return f"rtmp://127.0.0.1:{api.server.port}/{name}"


def clip(folder: Path, name: str) -> Path:
    """Some seconds of a picture, encoded once: sending them again and again costs nearly nothing."""
    path = folder / f"{name.replace('/', '-')}-source.flv"
    seconds, keys_every = ("20", "150") if name == "studio/slow-keys" else ("4", "30")
    video = ["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-g", keys_every, "-pix_fmt", "yuv420p"]
    inputs = ["-f", "lavfi", "-i", SOURCES[name], "-f", "lavfi", "-i", "sine=sample_rate=48000"]
    made = [*FFMPEG, *inputs, *video, "-keyint_min", keys_every, "-c:a", "aac", "-t", seconds, str(path)]
    run_to_end(made, path.with_suffix(".log"), 120)
    return path


def publishing(api: ApiServer, name: str, source: Path) -> list[str]:
    return [*FFMPEG, "-re", "-stream_loop", "-1", "-i", str(source), "-c", "copy", "-f", "flv", address(api, name)]


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("view", ["streams", "streams/live/main-stage"])
def test_the_page_is_worth_looking_at(api: ApiServer, tmp_path: Path, view: str, width: int, is_dark: bool) -> None:
    folder = Path(os.environ.get("PICTURES_TO", tmp_path))
    size, theme = "phone" if width < 500 else "wide", "dark" if is_dark else "light"
    name = f"page-{view.rsplit('/', maxsplit=1)[-1]}-{size}-{theme}.png"
    with opened(api, f"#/{view}", width=width, is_dark=is_dark) as (seen, page):
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        if view == "streams":
            in_sight = page.locator(".thumb img:not([hidden])")
            expect(in_sight.first).to_be_visible(timeout=30_000)
            if width > 500:
                expect(in_sight).to_have_count(len(SOURCES), timeout=30_000)
            expect(page.locator("[data-figure=out]")).to_contain_text("bit/s", timeout=30_000)
        else:
            expect(page.locator("[data-figure=latency]")).to_be_visible(timeout=30_000)
            page.wait_for_timeout(5000)
        # Nothing is wider than the screen.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.screenshot(path=folder / name)
        assert (folder / name).stat().st_size < MAX_BYTES
        assert seen.seen.console_errors == []
