"""Thumbnails of a real server: FFmpeg publishes, ffprobe judges, whichever worker is asked."""

import contextlib
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.serve.thumbnails.pictures import probed
from tests.support.memory_of import family_of
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import running
from tests.workers.workers_stage import wait_for

DEADLINE_S = 30.0
OPTIONS = ("--workers", "2", "--http", "127.0.0.1:0")
VIDEO = ("-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=10")
SOUND = ("-f", "lavfi", "-i", "sine=frequency=440")
H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "5")


@contextlib.contextmanager
def published(server: PenstockServer, name: str, *options: str) -> Iterator[None]:
    """Published in real time by FFmpeg."""
    command = ["ffmpeg", "-v", "error", "-re", *options, "-f", "flv", server.url(name)]
    with running(command, server.program.log_path.parent / f"{name.partition('?')[0]}.log"):
        yield


class Got:
    """What HTTP answers."""

    def __init__(self, server: PenstockServer, path: str, **headers: str) -> None:
        url = f"http://{server.wait_for_line('server started')['http']}{path}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=named), timeout=DEADLINE_S) as answer:
                self.status, self.headers, self.body = answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                self.status, self.headers, self.body = error.code, error.headers, error.read()


def picture_of(server: PenstockServer, path: str, **headers: str) -> Got:
    """It, once it is there: the first key frame may be on its way."""
    return wait_for(lambda: got if (got := Got(server, path, **headers)).status == 200 else None, path, DEADLINE_S)


def children_of(server: PenstockServer) -> list[int]:
    """Processes that decode."""
    pids = family_of(server.program.pid)
    return [pid for pid in pids if b"thumbnails.child" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_picture_has_the_width_that_is_asked_for_in_either_worker(tmp_path: Path) -> None:
    with penstock_server(tmp_path, OPTIONS) as server:
        assert children_of(server) == []
        with published(server, "cup", *VIDEO, *H264):
            first = picture_of(server, "/live/cup.jpg?w=160")
            assert probed(first.body, tmp_path) == "mjpeg,160,90"
            assert first.headers["Content-Type"] == "image/jpeg"
            assert first.headers["Cache-Control"] == "public, max-age=5"
            # The supervisor deals connections out in turn, so both workers are asked.
            with ThreadPoolExecutor(8) as pool:
                rest = list(pool.map(lambda _: picture_of(server, "/live/cup.jpg"), range(8)))
            assert {probed(each.body, tmp_path) for each in rest} == {"mjpeg,640,360"}
            assert len(children_of(server)) == 1
            etag = rest[0].headers["ETag"]
            assert Got(server, "/live/cup.jpg", If_None_Match=etag).status in (200, 304)
            nobody = Got(server, "/live/nobody.jpg")
            assert (nobody.status, nobody.headers["Retry-After"]) == (404, "1")
            assert nobody.body == b"There is no such stream now.\n"
            assert Got(server, "/live/cup.jpg?w=8000").status == 400


def test_a_decoder_that_stands_still_or_is_killed_is_replaced(tmp_path: Path) -> None:
    with penstock_server(tmp_path, OPTIONS) as server, published(server, "cup", *VIDEO, *H264):
        picture_of(server, "/live/cup.jpg")
        (first,) = children_of(server)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: children_of(server) == [], "its end")
        wait_for(lambda: picture_of(server, "/live/cup.jpg") and children_of(server), "another one")
        (second,) = children_of(server)
        os.kill(second, signal.SIGSTOP)
        # While it hangs the picture is 503, and the stream goes on.
        wait_for(lambda: Got(server, "/live/cup.jpg").status == 503, "a picture that is given up", DEADLINE_S)
        wait_for(lambda: children_of(server) != [second], "its end")
        picture_of(server, "/live/cup.jpg")


def test_sound_alone_has_no_picture_and_says_so(tmp_path: Path) -> None:
    with penstock_server(tmp_path, OPTIONS) as server, published(server, "radio", *SOUND, "-c:a", "aac"):
        got = wait_for(
            lambda: found if b"video" in (found := Got(server, "/live/radio.jpg")).body else None, "its words"
        )
    assert (got.status, got.body, got.headers["Retry-After"]) == (404, b"The stream has no video.\n", None)


def test_who_may_not_play_sees_no_picture(tmp_path: Path) -> None:
    config = '[access.live]\npublish = ["open"]\nplay = ["ip:192.0.2.0/24"]\n'
    with penstock_server(tmp_path, OPTIONS, config) as server, published(server, "cup", *VIDEO, *H264):
        wait_for(lambda: server.wait_for_line("Stream live/cup"), "the stream")
        assert Got(server, "/live/cup.jpg").status in (401, 403)
