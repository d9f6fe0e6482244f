"""The first minutes with the server, as a stranger spends them: publish with FFmpeg, play with ffplay, stop both.

Both programs are stopped as by Ctrl+C. The log must tell the whole story in the words that the documentation promises,
and the picture must be there within the time that it promises.
"""

import re
import signal
from pathlib import Path

from tests.interop.ffmpeg_copies import DEADLINE_S, ffmpeg_command, run_cleanly
from tests.support.penstock_server import penstock_server
from tests.support.processes import RunningProgram, find_program, running

STARTS_WITHIN_S = 5.0
# What ffplay logs when it shows the first picture.
FIRST_PICTURE = "Video frame changed"
SOURCE = (
    *("-f", "lavfi", "-i", "testsrc=size=320x180:rate=30:duration=30", "-f", "lavfi", "-i", "sine=duration=30"),
    *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "30", "-c:a", "aac"),
)
STORY = (
    r"Connection accepted from 127\.0\.0\.1:\d+",
    "Handshake completed",
    "connect command from app=live",
    "createStream allocated streamID=1",
    "publish started: live/test",
    r"Stream live/test: H\.264 .+, AAC.+",
    "play started: live/test",
    "play stopped: live/test",
    "publish stopped: live/test",
    "Stream live/test ended",
)


def press_ctrl_c(program: RunningProgram) -> None:
    program.process.send_signal(signal.SIGINT)
    program.wait_for_exit(DEADLINE_S)


def ffplay_command(url: str) -> list[str]:
    without_screen = ["env", "SDL_VIDEODRIVER=dummy", "SDL_AUDIODRIVER=dummy"]
    return [*without_screen, find_program("ffplay", "ffmpeg"), "-hide_banner", "-loglevel", "debug", url]


def test_the_log_tells_what_happened(tmp_path: Path) -> None:
    source = tmp_path / "test.mp4"
    run_cleanly(ffmpeg_command(*SOURCE, source), tmp_path / "source.log")
    with penstock_server(tmp_path, ["--log-level", "info", "--record", "all"]) as server:
        url = server.url("test")
        publish = ffmpeg_command("-re", "-i", source, "-c", "copy", "-f", "flv", url)
        with running(publish, tmp_path / "publish.log") as publisher:
            server.wait_for_line("publish started: live/test")
            with running(ffplay_command(url), tmp_path / "play.log") as player:
                player.wait_for_log(FIRST_PICTURE, STARTS_WITHIN_S)
                press_ctrl_c(player)
                server.wait_for_line("play stopped: live/test")
            press_ctrl_c(publisher)
        server.wait_for_line("Connection closed: ", lines=2)
        recording = server.wait_for_line("Recording started")
        messages = [str(line["msg"]) for line in server.log_lines()]
    for expected in STORY:
        assert any(re.fullmatch(expected, message) for message in messages), f"{expected} is not in {messages}"
    assert re.fullmatch(r"live_test_\d{8}_\d{6}\.flv", str(recording["path"]))
    assert [line["msg"] for line in server.log_lines() if line["level"] != "INFO"] == []
