"""FFmpeg as people use it with keys: in the query, as the stream key, and as user and password by Adobe's challenge."""

from pathlib import Path

import pytest

from penstock.access.keys import key_line
from tests.support.ffmpeg import play, publish, publish_command, publishing
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import running

KEY = "abcdefghijklmnopqrstuvwxyz234567"
SALT = "c2FsdHNhbHQ"


def config(*, has_adobe: bool = False) -> str:
    return f"""
[access.live]
publish = ["key"]
play = ["open"]
keys = ["{key_line("studio", KEY, SALT if has_adobe else None)}"]
[access.live.aliases]
studio = "main"
"""


def url(server: PenstockServer, path: str, login: str = "") -> str:
    return f"rtmp://{login}127.0.0.1:{server.port}/{path}"


@pytest.mark.parametrize("path", [f"live/{KEY}", f"live/main?key={KEY}", f"live?key={KEY}/main"])
def test_ffmpeg_publishes_with_a_key_and_others_watch_under_the_streams_own_name(tmp_path: Path, path: str) -> None:
    with penstock_server(tmp_path, config=config()) as server:
        with publishing(url(server, path), tmp_path / "publish.log"):
            play(url(server, "live/main"), 1.0, tmp_path / "seen.flv", tmp_path / "play.log")
        assert server.wait_for_line("publish started: live/main")
        assert KEY not in server.program.log_text()


def test_ffmpeg_publishes_with_user_and_password(tmp_path: Path) -> None:
    with penstock_server(tmp_path, config=config(has_adobe=True)) as server:
        publish(url(server, "live/main", f"studio:{KEY}@"), 1.0, tmp_path / "publish.log")
        assert server.wait_for_line("publish started: live/main")
        assert KEY not in server.program.log_text()


@pytest.mark.parametrize(
    ("login", "path", "shown"),
    [
        ("", "live/main", "Operation not permitted"),
        ("", "live/main?key=wrong", "Operation not permitted"),
        ("studio:wrong@", "live/main", "authfailed"),
    ],
)
def test_ffmpeg_is_told_that_it_may_not(tmp_path: Path, login: str, path: str, shown: str) -> None:
    with penstock_server(tmp_path, config=config(has_adobe=bool(login))) as server:
        with running(publish_command(url(server, path, login), 5.0), tmp_path / "publish.log") as program:
            assert program.wait_for_exit(20.0) != 0
            assert shown in program.log_text()
        assert server.wait_for_line("Limit hit: access")
