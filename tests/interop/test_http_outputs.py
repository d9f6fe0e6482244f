"""HTTP-FLV and live MP4 in programs that people watch with: FFmpeg, and the bare video element of Chromium."""

import subprocess
from pathlib import Path

from tests.support.browser import browser
from tests.support.ffmpeg import find_ffmpeg, publishing
from tests.workers.workers_stage import two_workers

DEADLINE_S = 60.0


def decoded(url: str, seconds: float) -> str:
    """What FFmpeg has to say when it decodes so much of a stream, errors first."""
    command = [find_ffmpeg(), "-v", "error", "-t", f"{seconds:g}", "-i", url, "-f", "null", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return done.stderr if done.returncode else ""


def test_ffmpeg_decodes_flv_and_mp4_from_whichever_worker(tmp_path: Path) -> None:
    with two_workers(tmp_path, has_http=True) as workers:
        url = f"rtmp://127.0.0.1:{workers.port}/live/a"
        with publishing(url, tmp_path / "publisher.log"):
            for kind in ("flv", "mp4", "flv", "mp4"):
                assert decoded(f"http://{workers.http}/live/a.{kind}", 2) == ""


def test_a_bare_video_element_plays_live_mp4(tmp_path: Path) -> None:
    with two_workers(tmp_path, has_http=True) as workers:
        url = f"rtmp://127.0.0.1:{workers.port}/live/a"
        with publishing(url, tmp_path / "publisher.log"), browser() as chromium:
            page = chromium.page()
            page.goto(f"http://{workers.http}/healthz")
            page.evaluate(
                """target => {
                    const video = document.createElement("video");
                    video.muted = true;
                    video.src = target;
                    document.body.append(video);
                    return video.play();
                }""",
                "/live/a.mp4",
            )
            page.wait_for_function(
                "() => document.querySelector('video').getVideoPlaybackQuality().totalVideoFrames > 20", timeout=30_000
            )
