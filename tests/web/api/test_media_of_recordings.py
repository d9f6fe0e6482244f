"""Recordings of a real server as browsers play them: judged by ffprobe, from several places, by a link."""

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.browser import browser
from tests.support.processes import find_program, run_to_end, running
from tests.web.api.api_server import ApiServer, api_server

PENSTOCK = (sys.executable, "-m", "penstock")
SECONDS = 6


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("media")
    with api_server(folder, ["--record", "all"], "loopback_reads = false\n") as served:
        publish = [*PENSTOCK, "publish", served.server.url("a"), "--test-pattern", "--size", "128x64"]
        run_to_end([*publish, "--seconds", str(SECONDS)], folder / "publish.log", 60)
        until_closed(served)
        yield served


def until_closed(api: ApiServer) -> dict[str, Any]:
    ends_at = time.monotonic() + 20
    while not (found := [each for each in api.get("/recordings")["items"] if each["status"] == "closed"]):
        assert time.monotonic() < ends_at, "no recording was closed"
        time.sleep(0.05)
    return dict(found[0])


def media(api: ApiServer, from_s: float = 0.0) -> httpx.Response:
    return api.ask("GET", f"/api/v1/recordings/{until_closed(api)['id']}/media.mp4?from_s={from_s}")


def probed(data: bytes, folder: Path) -> dict[str, dict[str, Any]]:
    """Its streams by kind, as ffprobe decodes them to the end."""
    path = folder / "probed.mp4"
    path.write_bytes(data)
    words = [find_program("ffprobe", "ffmpeg"), "-v", "error", "-count_frames", "-show_streams", "-of", "json"]
    text = run_to_end([*words, str(path)], folder / "probe.log", 60)
    return {each["codec_type"]: each for each in json.loads(text)["streams"]}


def test_ffprobe_decodes_all_of_it(api: ApiServer, tmp_path: Path) -> None:
    answer = media(api)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "video/mp4")
    assert answer.headers["penstock-starts-at-s"] == "0.000"
    streams = probed(answer.content, tmp_path)
    assert (streams["video"]["codec_name"], streams["video"]["width"]) == ("h264", 128)
    assert 30 * SECONDS - 5 <= int(streams["video"]["nb_read_frames"]) <= 30 * SECONDS + 5
    assert streams["audio"]["codec_name"] == "aac"
    assert float(streams["video"]["start_time"]) < 0.1


def test_it_begins_at_the_key_frame_before_and_counts_from_there(api: ApiServer, tmp_path: Path) -> None:
    answer = media(api, 3.1)
    assert answer.headers["penstock-starts-at-s"] == "2.000"
    streams = probed(answer.content, tmp_path)
    assert 30 * 4 - 5 <= int(streams["video"]["nb_read_frames"]) <= 30 * 4 + 5
    assert float(streams["video"]["start_time"]) < 0.1
    assert float(media(api, 10_000).headers["penstock-starts-at-s"]) == 4.0


def test_head_says_where_it_would_begin(api: ApiServer) -> None:
    answer = api.ask("HEAD", f"/api/v1/recordings/{until_closed(api)['id']}/media.mp4?from_s=5.5")
    assert (answer.status_code, answer.headers["penstock-starts-at-s"], answer.content) == (200, "4.000", b"")


def test_a_link_plays_it_without_a_token_and_without_it_nobody_does(api: ApiServer, tmp_path: Path) -> None:
    recording = until_closed(api)
    link = api.ask("POST", "/api/v1/links", json={"recording": recording["id"]}).json()
    answer = api.ask("GET", link["paths"]["media"] + "&from_s=2", headers={})
    assert answer.status_code == 200
    assert "video" in probed(answer.content, tmp_path)
    assert api.ask("GET", link["paths"]["media"].partition("?")[0], headers={}).status_code == 401
    flv = api.ask("GET", link["paths"]["file"], headers={})
    assert (flv.status_code, flv.content[:3]) == (200, b"FLV")


def test_chromium_plays_it_by_a_link_and_seeks_by_asking_anew(api: ApiServer) -> None:
    media_path = api.ask("POST", "/api/v1/links", json={"recording": until_closed(api)["id"]}).json()["paths"]["media"]
    with browser() as chromium:
        page = chromium.page()
        page.goto(f"{api.url}/")
        for from_s in (0, 3):
            page.evaluate(
                """(src) => {
                    document.body.replaceChildren(document.createElement("video"));
                    window.video = document.querySelector("video");
                    video.muted = true;
                    video.src = src;
                    video.play();
                }""",
                f"{media_path}&from_s={from_s}",
            )
            ends_at = time.monotonic() + 30
            while page.evaluate("video.currentTime") < 0.5:
                assert time.monotonic() < ends_at, page.evaluate("video.error && video.error.message")
                page.wait_for_timeout(50)
            brightest = page.evaluate(
                """() => {
                    const canvas = document.createElement("canvas");
                    canvas.width = canvas.height = 64;
                    const context = canvas.getContext("2d");
                    context.drawImage(video, 0, 0, 64, 64);
                    return Math.max(...context.getImageData(0, 0, 64, 64).data.filter((_, index) => index % 4 < 3));
                }"""
            )
            assert brightest > 100
            assert page.evaluate("video.videoWidth") == 128


def test_one_that_is_still_written_is_played_as_far_as_it_is(api: ApiServer, tmp_path: Path) -> None:
    publish = [*PENSTOCK, "publish", api.server.url("open"), "--test-pattern", "--size", "128x64"]
    with running(publish, tmp_path / "publish.log"):
        ends_at = time.monotonic() + 20
        while True:
            found = api.get("/recordings?stream=open")["items"]
            if found and found[0]["status"] == "open" and (found[0]["size_bytes"] or 0) > 300_000:
                break
            assert time.monotonic() < ends_at
            time.sleep(0.1)
        answer = api.ask("GET", f"/api/v1/recordings/{found[0]['id']}/media.mp4?from_s=1")
    assert answer.status_code == 200
    assert int(probed(answer.content, tmp_path)["video"]["nb_read_frames"]) > 20


def test_those_who_take_nothing_hold_no_more_than_there_is_room_for_and_let_go_of_files(api: ApiServer) -> None:
    path = f"/api/v1/recordings/{until_closed(api)['id']}/media.mp4"
    web = next(each["pid"] for each in api.get("/server")["processes"] if each["role"] == "web")
    host = urlsplit(api.url)
    idle = []
    for _ in range(20):
        one = socket.create_connection((host.hostname, host.port or 80))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {'a' * 32}\r\n\r\n".encode())
        idle.append(one)
    statuses = [int(one.recv(12).split()[1]) for one in idle]
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 16
    assert api.get("/server")["state"] == "ready"
    for one in idle:
        one.close()
    ends_at = time.monotonic() + 10
    while any(name.endswith(".flv") for name in links_of(web)):
        assert time.monotonic() < ends_at, "files are held open"
        time.sleep(0.05)
    assert media(api).status_code == 200


def links_of(pid: int) -> list[str]:
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(each))
        except OSError:
            continue
    return found


def test_what_is_no_recording_or_cannot_be_carried_is_a_problem(api: ApiServer, tmp_path: Path) -> None:
    assert api.ask("GET", "/api/v1/recordings/none-1/media.mp4").status_code == 404
    recording = until_closed(api)
    for wrong in ("-1", "nan", "inf", "x"):
        assert api.ask("GET", f"/api/v1/recordings/{recording['id']}/media.mp4?from_s={wrong}").status_code == 422
    path = tmp_path / "moved.flv"
    original = next(api_folder(api).glob(recording["path"]))
    original.rename(path)
    try:
        assert media(api).status_code == 404
        original.write_bytes(b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00")
        answer = media(api)
        assert (answer.status_code, answer.headers["content-type"]) == (409, "application/problem+json")
        assert "nothing of it can be carried" in answer.json()["detail"]
    finally:
        path.rename(original)


def api_folder(api: ApiServer) -> Path:
    return api.server.program.log_path.parent / "data" / "recordings"
