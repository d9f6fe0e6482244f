"""The server as a person meets it: on a terminal of its own."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

DEADLINE_S = 30.0


def read_until(descriptor: int, wanted: str) -> str:
    """What a terminal shows, until it shows this; colours are left out."""
    shown, give_up_at = b"", time.monotonic() + DEADLINE_S
    while wanted not in (text := re.sub(r"\x1b\[[0-9;]*m", "", shown.decode(errors="replace"))):
        assert time.monotonic() < give_up_at, text
        if select.select([descriptor], [], [], 0.1)[0]:
            shown += os.read(descriptor, 65_536)
    return text


def test_a_person_is_told_where_to_publish_play_and_look(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "penstock", "serve", "--rtmp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--data", str(tmp_path)], stdin=theirs, stdout=theirs, stderr=theirs) as server:
        os.close(theirs)
        try:
            shown = read_until(ours, "stop     Ctrl+C")
            server.send_signal(signal.SIGINT)
            shown += read_until(ours, "server stopped")
            assert server.wait(DEADLINE_S) == 0
        finally:
            server.kill()
            os.close(ours)
    assert re.search(r"publish  rtmp://127\.0\.0\.1:\d+/live/STREAM\r\n", shown)
    assert re.search(r"look     http://127\.0\.0\.1:\d+/healthz and /metrics\r\n", shown)
    assert re.search(r"^\d\d:\d\d:\d\d \[info +\] server started", shown, re.MULTILINE)
    assert "{" not in shown
