"""OBS Studio publishes to the real server, and FFmpeg and VLC play it.

OBS runs under Xvfb with the profile in `obs/`, streams for a few seconds and ends by its own command.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.interop.extended.test_vlc import NOBODY_ID, decoded_pictures, vlc_command
from tests.interop.ffmpeg_copies import DEADLINE_S
from tests.interop.live_player import player_command, waiting_player
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import RunningProgram, find_program, running

PROFILE_DIR = Path(__file__).parent / "obs"
NAME = "obs"


def write_home(home: Path, server_url: str) -> None:
    """What OBS finds in its home."""
    config_dir = home / ".config" / "obs-studio"
    profile_dir, scenes_dir = config_dir / "basic" / "profiles" / "penstock", config_dir / "basic" / "scenes"
    for folder in (profile_dir, scenes_dir):
        folder.mkdir(parents=True)
    shutil.copy(PROFILE_DIR / "global.ini", config_dir)
    shutil.copy(PROFILE_DIR / "basic.ini", profile_dir)
    service = (PROFILE_DIR / "service.json").read_text(encoding="utf-8")
    (profile_dir / "service.json").write_text(service.replace("SERVER_URL", server_url), encoding="utf-8")
    scenes = (PROFILE_DIR / "scenes.json").read_text(encoding="utf-8")
    scenes = scenes.replace("STOP_SCRIPT", str(PROFILE_DIR / "stop.lua"))
    (scenes_dir / "penstock.json").write_text(scenes, encoding="utf-8")


@contextmanager
def obs_publishing(server: PenstockServer, work_dir: Path) -> Iterator[RunningProgram]:
    """Start OBS, which begins to stream by itself; it is ended with the block, streaming or not."""
    home = work_dir / "home"
    write_home(home, server.url("").rstrip("/"))
    xvfb = [find_program("Xvfb", "xvfb"), "-displayfd", "1", "-screen", "0", "800x600x24", "+extension", "GLX"]
    with running(xvfb, work_dir / "xvfb.log") as display:
        display.wait_for_log("\n", DEADLINE_S)
        screen = display.log_text().splitlines()[-1].strip()
        variables = [f"HOME={home}", f"XDG_RUNTIME_DIR={home}", f"DISPLAY=:{screen}", "LIBGL_ALWAYS_SOFTWARE=1"]
        obs = [find_program("obs", "obs-studio"), "--startstreaming", "--multi"]
        command = ["env", *variables, *obs, "--profile", "penstock", "--collection", "penstock"]
        with running(command, work_dir / "obs.log") as program:
            yield program


def test_ffmpeg_and_vlc_play_what_obs_publishes(tmp_path: Path) -> None:
    list_path = tmp_path / "played.txt"
    with TemporaryDirectory(prefix="vlc-") as folder, penstock_server(tmp_path) as server:
        vlc_home = Path(folder)
        if os.geteuid() == 0:
            os.chown(vlc_home, NOBODY_ID, NOBODY_ID)
        ffmpeg = player_command(server.url(NAME), list_path)
        with (
            waiting_player(server, NAME, ffmpeg, list_path) as player,
            running(vlc_command(server.url(NAME), vlc_home), tmp_path / "vlc.log") as vlc,
        ):
            server.wait_for_play(NAME, plays=2)
            with obs_publishing(server, tmp_path):
                stopped = server.wait_for_line(f"publish stopped: live/{NAME}")
            packets = player.finish()
            assert vlc.wait_for_exit(DEADLINE_S) == 0
        pictures = decoded_pictures(vlc_home / "played.h264", tmp_path)
        vlc_audio_bytes = (vlc_home / "played.mp4a").stat().st_size
    assert stopped["reason"] == "FCUnpublish"
    videos, audios = ([packet for packet in packets if packet.startswith(f"{track}, ")] for track in (0, 1))
    assert (len(videos) >= 20, len(audios) >= 80) == (True, True)
    assert len(pictures) == len(videos)
    # VLC writes the decoder's configuration first.
    assert vlc_audio_bytes > sum(int(packet.split(", ")[4]) for packet in audios)
