"""VLC as a player of HLS, live, while FFmpeg publishes: classic, and low-latency as one that does not know it."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.interop.extended.test_vlc import NOBODY_ID, decoded_pictures, vlc_command
from tests.interop.hls_server import PATH, published, wait_until
from tests.support.processes import running

LEAST_BYTES = 4096


@pytest.fixture
def home() -> Iterator[Path]:
    with TemporaryDirectory(prefix="vlc-") as folder:
        path = Path(folder)
        if os.geteuid() == 0:
            os.chown(path, NOBODY_ID, NOBODY_ID)
        yield path


@pytest.mark.parametrize("query", ["", "?ll=0"])
def test_vlc_plays_pictures_and_sound(home: Path, tmp_path: Path, query: str) -> None:
    with published(tmp_path) as on:
        on.client().get(f"{PATH}?wait_s=20")
        pictures, sound = home / "played.h264", home / "played.mp4a"
        with running(vlc_command(on.url(f"{PATH}{query}"), home), tmp_path / "vlc.log"):
            wait_until(lambda: all(each.exists() and each.stat().st_size > LEAST_BYTES for each in (pictures, sound)))
    assert len(decoded_pictures(pictures, tmp_path)) > 1
