"""VLC as a player of the real server, live, while FFmpeg publishes."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.interop.extended.test_vlc import NOBODY_ID, decoded_pictures, vlc_command
from tests.interop.ffmpeg_copies import DEADLINE_S, RECORDING_PATH, ffmpeg_command, run_cleanly
from tests.support.penstock_server import penstock_server
from tests.support.processes import running


@pytest.fixture
def home() -> Iterator[Path]:
    with TemporaryDirectory(prefix="vlc-") as folder:
        path = Path(folder)
        if os.geteuid() == 0:
            os.chown(path, NOBODY_ID, NOBODY_ID)
        yield path


def test_vlc_plays_every_picture_of_a_live_stream_and_ends(home: Path, tmp_path: Path) -> None:
    with penstock_server(tmp_path) as server:
        publish = ffmpeg_command("-re", "-i", RECORDING_PATH, "-c", "copy", "-f", "flv", server.url("s"))
        with running(vlc_command(server.url("s"), home), tmp_path / "vlc.log") as vlc:
            server.wait_for_play("s")
            run_cleanly(publish, tmp_path / "publish.log")
            assert vlc.wait_for_exit(DEADLINE_S) == 0
    pictures = decoded_pictures(RECORDING_PATH, tmp_path)
    assert decoded_pictures(home / "played.h264", tmp_path) == pictures
    assert len(pictures) == 20
