"""hls.js as a player of low-latency HLS, in Chromium, by a clock in the picture.

Owns where hls.js comes from: HLS_JS names the file, or npm answers. Where neither is so, that is said and nothing is
judged. How far it is behind is printed, since it means nothing on a machine without a core to spare.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from bench.clock_picture import READ
from bench.player import clock_publisher

from tests.interop.hls_server import hls_server
from tests.support.browser import browser

NPM_S = 60.0
STARTS_S = 30.0
WATCHED_MS = 10_000
LATEST_MS = 10_000
PAGE = """\
<!doctype html>
<link rel="icon" href="data:,">
<video muted autoplay></video>
<script src="hls.js"></script>
<script>
  const video = document.querySelector("video");
  const faults = [];
  const hls = new Hls({ lowLatencyMode: true });
  hls.on(Hls.Events.ERROR, (_, { fatal, details }) => fatal && faults.push(details));
  hls.loadSource(new URLSearchParams(location.search).get("url"));
  hls.attachMedia(video);
</script>
"""
BEHIND = f"""
async (milliseconds) => {{
  const read = {READ};
  const found = [];
  const ends_ms = performance.now() + milliseconds;
  while (performance.now() < ends_ms) {{
    const behind_ms = read(video);
    if (behind_ms !== null) found.push(behind_ms);
    await new Promise((resolve) => setTimeout(resolve, 70));
  }}
  return [found, faults];
}}
"""


def find_hls_js(folder: Path) -> Path | None:
    """The file, or None if there is none on this machine and npm does not answer."""
    if named := os.environ.get("HLS_JS"):
        return Path(named)
    npm = shutil.which("npm")
    if npm is None:
        return None
    try:
        subprocess.run([npm, "pack", "--silent", "hls.js"], cwd=folder, check=True, capture_output=True, timeout=NPM_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as opened:
        source = opened.extractfile("package/dist/hls.min.js")
        assert source is not None
        path = folder / "hls.min.js"
        path.write_bytes(source.read())
    return path


class QuietHandler(SimpleHTTPRequestHandler):
    """Files, without a line for each."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def page_with(hls_js: Path, folder: Path) -> Iterator[str]:
    """The address of a page of another site that plays `?url=`."""
    folder.mkdir()
    shutil.copy(hls_js, folder / "hls.js")
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{site.server_port}/"
        finally:
            site.shutdown()
            thread.join()


def test_hls_js_plays_low_latency(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "npm"
    packed.mkdir()
    hls_js = find_hls_js(packed)
    if hls_js is None:
        with capsys.disabled():
            sys.stdout.write("\nnot judged by hls.js\n")
        pytest.skip("not judged by hls.js: npm does not answer, and HLS_JS names no file")
    with (
        hls_server(tmp_path) as on,
        clock_publisher(on.server.url("clock")),
        page_with(hls_js, tmp_path / "site") as site,
        browser() as chromium,
    ):
        on.client().get("/live/clock.m3u8?wait_s=20")
        page = chromium.page()
        page.goto(f"{site}?url={on.url('/live/clock.m3u8')}")
        page.wait_for_function(f"({READ})(video) !== null", timeout=STARTS_S * 1000)
        page.evaluate(BEHIND, WATCHED_MS / 2)  # it has to catch up first
        behind_ms, faults = page.evaluate(BEHIND, WATCHED_MS)
    with capsys.disabled():
        sys.stdout.write(f"\nhls.js is {statistics.median(behind_ms):.0f} ms behind; the aim is below 1500 ms\n")
    assert faults == []
    assert chromium.seen.console_errors == []
    assert len(behind_ms) > WATCHED_MS / 1000
    assert statistics.median(behind_ms) < LATEST_MS
