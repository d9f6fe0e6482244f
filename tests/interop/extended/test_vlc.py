"""VLC as a player of our server session; its RTMP is libavformat's, its handling of the end is its own."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from penstock.protocol.events import PublishEnded
from tests.interop.ffmpeg_copies import DEADLINE_S, RECORDING_PATH, ffmpeg_command, packet_lines, run_cleanly
from tests.support.processes import find_program, run_to_end
from tests.support.rtmp_driver import rtmp_client
from tests.support.rtmp_server import rtmp_server
from tests.support.samples import AUDIO, flv_samples

NOBODY_ID = 65534
AAC_HEADER_BYTES = 2


@pytest.fixture
def vlc_home() -> Iterator[Path]:
    """A folder that VLC may write to whoever it runs as; pytest's own is closed to all but its user."""
    with TemporaryDirectory(prefix="vlc-") as folder:
        path = Path(folder)
        if os.geteuid() == 0:
            os.chown(path, NOBODY_ID, NOBODY_ID)
        yield path


def vlc_command(url: str, home: Path) -> list[str]:
    """Write each elementary stream to a file named for its codec, and exit."""
    # VLC refuses to run as root, who becomes nobody for it.
    as_nobody = ["setpriv", f"--reuid={NOBODY_ID}", f"--regid={NOBODY_ID}", "--clear-groups"]
    output = f"--sout=#es{{access=file,mux=dummy,dst={home}/played.%c}}"
    vlc = [find_program("cvlc", "vlc-bin"), "--intf", "dummy", "--play-and-exit", url, output]
    # PulseAudio's client library leaves folders in these two.
    own_folders = ["env", f"HOME={home}", f"TMPDIR={home}", f"XDG_RUNTIME_DIR={home}"]
    return [*(as_nobody if os.geteuid() == 0 else []), *own_folders, *vlc]


def decoded_pictures(path: Path, work_dir: Path) -> list[str]:
    """MD5 of every picture."""
    list_path = work_dir / f"{path.name}.pictures.txt"
    command = ffmpeg_command("-i", path, "-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5", "-y", list_path)
    run_cleanly(command, work_dir / f"{path.name}.log")
    return [line.split(", ")[-1] for line in packet_lines(list_path)]


def test_vlc_plays_every_picture_and_sound_and_ends(vlc_home: Path, tmp_path: Path) -> None:
    recording = flv_samples(RECORDING_PATH)
    with rtmp_server() as server:
        with rtmp_client(server.port) as publisher:
            publisher.publish("s")
            publisher.send(recording)
            publisher.end()
            server.wait_for(PublishEnded)
        run_to_end(vlc_command(server.url("s"), vlc_home), tmp_path / "vlc.log", DEADLINE_S)
    pictures = decoded_pictures(RECORDING_PATH, tmp_path)
    assert decoded_pictures(vlc_home / "played.h264", tmp_path) == pictures
    assert len(pictures) == 20
    # VLC writes the decoder's configuration first, which is what the sequence header holds.
    sounds = [each.payload[AAC_HEADER_BYTES:] for each in recording if each.type_id == AUDIO]
    assert (vlc_home / "played.mp4a").read_bytes() == b"".join(sounds)
