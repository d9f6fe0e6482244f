"""How far our player is behind, and how soon it shows a picture: by a clock in the picture, in a real Chromium.

    python -m bench.player [--seconds 20] [--clicks 10] [--page URL] [--json FILE]

Owns the whole way: frames that carry the wall time of their making, encoded by FFmpeg (H.264 without B-frames, AAC, a
key frame every two seconds), published by RTMP to a server of its own on loopback, watched in Debian's Chromium.

- Behind: the clock is read from the picture that the <video> shows (`bench.clock_picture`), many times a second. So the
  encoder's time is in it, as is the server's, and all but the last step from the compositor to the screen.
- First picture: from `start()`, which is what a click does, to the first frame that the browser reports as composed
  (`requestVideoFrameCallback`), and to the first whose clock is less than half a second behind, the browser being warm.
  The first page of a browser takes longer; it is told apart.

Figures mean nothing on a machine that has no core to spare: the load is printed with them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page
from tests.support.browser import browser
from tests.support.ffmpeg import find_ffmpeg
from tests.support.penstock_server import penstock_server

from bench.clock_picture import HEIGHT_PX, READ, WIDTH_PX

FPS = 30
NEAR_MS = 500
QUIET = "[facts]\nenabled = false\n"

CLICK = f"""
async () => {{
  const read = {READ};
  const element = document.querySelector("penstock-player");
  const {{ player, video }} = element;
  player.stop();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const clicked_ms = performance.now();
  const found = {{ first_ms: null, near_ms: null }};
  const done = new Promise((resolve) => {{
    const look = () => {{
      const passed_ms = performance.now() - clicked_ms;
      const behind_ms = read(video);
      if (behind_ms !== null) found.first_ms ??= passed_ms;
      if (behind_ms !== null && behind_ms < {NEAR_MS}) found.near_ms ??= passed_ms;
      if (found.near_ms !== null || passed_ms > 5000) resolve(found);
      else video.requestVideoFrameCallback(look);
    }};
    video.requestVideoFrameCallback(look);
    setTimeout(() => resolve(found), 6000);
  }});
  player.start();
  return await done;
}}
"""
BEHIND = f"""
async (milliseconds) => {{
  const read = {READ};
  const {{ player, video }} = document.querySelector("penstock-player");
  const found = [];
  const ends_ms = performance.now() + milliseconds;
  while (performance.now() < ends_ms) {{
    const behind_ms = read(video);
    if (behind_ms !== null) found.push([behind_ms, player.stats.latency_ms]);
    await new Promise((resolve) => setTimeout(resolve, 70));
  }}
  return [found, player.stats];
}}
"""


@contextmanager
def clock_publisher(url: str) -> Iterator[None]:
    """Publish the clock, with a tone, until the block ends."""
    frames = subprocess.Popen([sys.executable, "-m", "bench.clock_picture", str(FPS)], stdout=subprocess.PIPE)
    size = f"{WIDTH_PX}x{HEIGHT_PX}"
    picture = ["-f", "rawvideo", "-pix_fmt", "gray", "-s", size, "-r", str(FPS), "-i", "pipe:0"]
    tone = ["-re", "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"]
    video = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", str(2 * FPS)]
    rest = ["-pix_fmt", "yuv420p", "-b:v", "2M", "-c:a", "aac", "-flush_packets", "1", "-f", "flv", url]
    # Short probes: what FFmpeg reads before it begins would be behind for ever.
    command = [
        find_ffmpeg(),
        "-v",
        "error",
        "-probesize",
        "32",
        "-analyzeduration",
        "0",
        *picture,
        *tone,
        *video,
        *rest,
    ]
    assert frames.stdout is not None
    encoder = subprocess.Popen(command, stdin=frames.stdout)
    # The encoder has it now.
    frames.stdout.close()
    try:
        yield
    finally:
        for process in (encoder, frames):
            process.kill()
            process.wait()


def wait_for_picture(page: Page, within_s: float = 20.0) -> float:
    """Seconds until the page shows a clock."""
    began_at = time.monotonic()
    while time.monotonic() - began_at < within_s:
        video = "document.querySelector('penstock-player').video"
        if page.evaluate(f"({READ})({video})") is not None:
            return time.monotonic() - began_at
        time.sleep(0.02)
    raise RuntimeError("no clock in the picture")


def watch(url: str, seconds: float, clicks: int) -> dict[str, Any]:
    """What a viewer at this address sees."""
    with browser() as chromium:
        page = chromium.page()
        page.goto(url)
        cold_ms = wait_for_picture(page) * 1000
        samples, stats = page.evaluate(BEHIND, seconds * 1000)
        clicked = [page.evaluate(CLICK) for _ in range(clicks)]
    behind_ms = [each for each, _ in samples]
    told_ms = [each for _, each in samples if each is not None]
    return {
        "load": os.getloadavg()[0],
        "cold_first_picture_ms": round(cold_ms),
        "first_picture_ms": summary([each["first_ms"] for each in clicked]),
        "near_live_picture_ms": summary([each["near_ms"] for each in clicked]),
        "behind_ms": summary(behind_ms),
        "told_latency_ms": summary(told_ms),
        "stats": stats,
    }


def summary(values: list[float | None]) -> dict[str, float | int]:
    """Least, median, 95th in a hundred, and how many of them there are; those that never came are counted."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return {"number": 0, "never": len(values)}
    return {
        "least": round(known[0]),
        "median": round(statistics.median(known)),
        "p95": round(known[min(len(known) - 1, int(len(known) * 0.95))]),
        "number": len(known),
        "never": len(values) - len(known),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clicks", type=int, default=10)
    parser.add_argument("--page", help="the watch page of a clock that somebody else publishes")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.page is not None:
        found = watch(arguments.page, arguments.seconds, arguments.clicks)
    else:
        with (
            tempfile.TemporaryDirectory() as folder,
            penstock_server(Path(folder), ["--http", "127.0.0.1:0"], QUIET) as server,
            clock_publisher(server.url("clock")),
        ):
            http = server.wait_for_line("server started")["http"]
            time.sleep(4)
            found = watch(f"http://{http}/live/clock", arguments.seconds, arguments.clicks)
    for name, value in found.items():
        print(f"{name:22} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
