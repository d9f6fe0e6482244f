"""Edges in front of origins, as processes: what viewers of an edge get, and what an origin is asked for.

Origins are servers of ours and nginx-rtmp; what goes through both is compared message by message, by numbers in its
payloads, and FFmpeg watches as a player does.
"""

import asyncio
import hashlib
import json
import os
import signal
import time
import urllib.request
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support import ffmpeg
from tests.support.edge_servers import origin_process, pull_config
from tests.support.memory_of import family_of
from tests.support.nginx_rtmp import nginx_rtmp
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import free_port
from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import Broadcast, gaps, is_key, is_setup, numbers
from tests.support.raw_rtmp import RawMessage
from tests.support.tls import Files
from tests.web.api.api_server import api_server

EXAMPLES = Path(__file__).parents[2] / "examples" / "edge"
LOCAL = "rtmp://127.0.0.1:{port}/{{app}}/{{stream}}"
DEADLINE_S = 20.0
NOT_FOUND = "NetStream.Play.StreamNotFound"
ENDED = "NetStream.Play.UnpublishNotify"
TAG_AT = {0x17: 5, 0x27: 5, 0xAF: 2}
"""Where in a payload its publication is told, by its first byte."""
HTTP = ("--http", "127.0.0.1:0")
TWO_WORKERS = ("--workers", "2")


def in_folder(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await scenario()

    asyncio.run(bounded())


async def broadcast_to(clients: RawClients, name: str = "a", tag: int = 1) -> tuple[Broadcast, asyncio.Task[None]]:
    """Somebody publishes from now on, in real time."""
    client = await clients.open()
    broadcast = Broadcast(client, await client.publish(name), tag)
    broadcast.send_setup()
    return broadcast, asyncio.create_task(broadcast.run())


async def until(find: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    give_up_at = time.monotonic() + deadline_s
    while not (found := await asyncio.to_thread(find)):
        assert time.monotonic() < give_up_at, f"waited in vain for {what}"
        await asyncio.sleep(0.05)
    return found


def get(server: PenstockServer, path: str) -> Any:
    http = server.wait_for_line("server started")["http"]
    with urllib.request.urlopen(f"http://{http}{path}", timeout=DEADLINE_S) as answer:
        return json.loads(answer.read())


def streams_of(server: PenstockServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(server, "/api/v1/streams")["items"]
    return found


def lines(server: PenstockServer, start: str) -> list[dict[str, Any]]:
    return [line for line in server.log_lines() if str(line["msg"]).startswith(start)]


def facts(data_dir: Path, kind: str) -> list[dict[str, Any]]:
    texts = [path.read_text(encoding="utf-8") for path in sorted((data_dir / "facts").rglob("*.jsonl"))]
    found = [json.loads(line) for text in texts for line in text.split("\n")[:-1]]
    return [fact for fact in found if fact["kind"] == kind]


def media_of(viewer: RawClient, tag: int) -> list[RawMessage]:
    """What came of one publication, codec configuration aside."""
    found = [each for each in viewer.media() if not is_setup(each.payload)]
    return [each for each in found if int.from_bytes(each.payload[TAG_AT[each.payload[0]] :][:4], "big") == tag]


async def until_numbers(viewer: RawClient, count: int, tag: int = 1) -> list[int]:
    """The numbers of what came of one publication, once there is enough of it. Each payload is whole and in order."""
    await viewer.until(lambda: len(media_of(viewer, tag)) >= count, f"{count} messages of {tag}", DEADLINE_S)
    return numbers(media_of(viewer, tag), tag)


def test_viewers_of_an_edge_get_what_the_origin_has_by_one_connection_for_all_workers(tmp_path: Path) -> None:
    origin_dir, edge_dir = in_folder(tmp_path, "o"), in_folder(tmp_path, "e")

    async def scenario() -> None:
        with penstock_server(origin_dir) as origin:
            config = pull_config(LOCAL.format(port=origin.port), idle_s=1.0)
            with penstock_server(edge_dir, [*TWO_WORKERS, *HTTP], config) as edge:
                async with RawClients(origin.port) as at_origin, RawClients(edge.port) as at_edge:
                    _, task = await broadcast_to(at_origin)
                    viewers = [await at_edge.viewer("a") for _ in range(4)]
                    for viewer in viewers:
                        found = await until_numbers(viewer, 60)
                        assert gaps(found) == 0
                        assert is_key(next(each for each in viewer.media(9) if not is_setup(each.payload)).payload)
                    (stream,) = await asyncio.to_thread(streams_of, edge)
                    assert stream["viewers"] == 4
                    assert stream["publisher"]["pulled_from"] == f"rtmp://127.0.0.1:{origin.port}/live/a"
                    assert len(lines(origin, "play started")) == 1
                    assert {line["worker"] for line in lines(edge, "play started")} == {1, 2}
                    for viewer in viewers:
                        viewer.reset()
                    await until(lambda: lines(origin, "play stopped"), "the end of the pull")
                    await until(lambda: not streams_of(edge), "the end of the stream")
                    # The next viewer begins anew.
                    await until_numbers(await at_edge.viewer("a"), 30)
                    task.cancel()
            started, *_ = facts(edge_dir / "data", "publish_started")
            assert (started["publishing_type"], started["pulled_from"], started["peer_addr"]) == (
                "pull",
                f"rtmp://127.0.0.1:{origin.port}/live/a",
                f"127.0.0.1:{origin.port}",
            )
            stopped = facts(edge_dir / "data", "publish_stopped")
            assert stopped[0]["reason"] == "nobody watches"
            assert stopped[0]["video_frames"] > 20

    run(scenario)


def test_ffmpeg_plays_from_an_edge_what_ffmpeg_publishes_to_its_origin(tmp_path: Path) -> None:
    with penstock_server(in_folder(tmp_path, "o")) as origin:
        config = pull_config(LOCAL.format(port=origin.port))
        with (
            penstock_server(in_folder(tmp_path, "e"), (), config) as edge,
            ffmpeg.publishing(origin.url("show"), tmp_path / "publish.log"),
        ):
            ffmpeg.play(edge.url("show"), 2.0, tmp_path / "played.flv", tmp_path / "play.log")
    assert (tmp_path / "played.flv").stat().st_size > 10_000
    assert "Video: h264" in (tmp_path / "play.log").read_text(encoding="utf-8")


def test_viewers_of_an_edge_go_on_when_their_origin_was_killed_and_is_back(tmp_path: Path) -> None:
    port = free_port()

    async def scenario() -> None:
        config = pull_config(LOCAL.format(port=port))
        with penstock_server(in_folder(tmp_path, "e"), TWO_WORKERS, config) as edge:
            async with RawClients(edge.port) as at_edge:
                with origin_process(tmp_path, port) as origin:
                    async with RawClients(port) as at_origin:
                        _, task = await broadcast_to(at_origin)
                        viewers = [await at_edge.viewer("a") for _ in range(3)]
                        for viewer in viewers:
                            await until_numbers(viewer, 30)
                        for pid in family_of(origin.pid):
                            os.kill(pid, signal.SIGKILL)
                        task.cancel()
                await asyncio.sleep(1.0)
                with origin_process(tmp_path, port):
                    async with RawClients(port) as at_origin:
                        _, task = await broadcast_to(at_origin, tag=2)
                        for viewer in viewers:
                            await until_numbers(viewer, 30, tag=2)
                        task.cancel()
                        for viewer in viewers:
                            seen = [*media_of(viewer, 1), *media_of(viewer, 2)]
                            steps = [after.timestamp_ms - before.timestamp_ms for before, after in pairwise(seen)]
                            # Time goes on by as much as the origin and its publisher were away.
                            assert (min(steps) >= 0, 1000 < max(steps) < 15_000) == (True, True)
                            assert ENDED not in viewer.codes()
            assert lines(edge, "Pull failed, and is tried again")

    run(scenario)


def test_an_edge_that_drains_serves_its_viewers_over_http_until_they_leave(tmp_path: Path) -> None:
    async def scenario() -> None:
        with (
            penstock_server(in_folder(tmp_path, "origin")) as origin,
            api_server(in_folder(tmp_path, "edge"), TWO_WORKERS, pull_config(LOCAL.format(port=origin.port))) as edge,
        ):
            async with RawClients(origin.port) as at_origin:
                _, task = await broadcast_to(at_origin)
                viewer = await asyncio.to_thread(urllib.request.urlopen, f"{edge.url}/live/a.flv", None, DEADLINE_S)
                assert await asyncio.to_thread(viewer.read, 1000)
                answer = await asyncio.to_thread(edge.ask, "POST", "/api/v1/drain", json={"within_s": 60.0})
                assert answer.status_code == 202
                await asyncio.to_thread(edge.server.wait_for_line, "draining")
                # Longer than it takes to find out that nobody is there.
                ends_at = time.monotonic() + 3.0
                while time.monotonic() < ends_at:
                    assert await asyncio.to_thread(viewer.read, 100)
                viewer.close()
                assert await asyncio.to_thread(edge.server.program.wait_for_exit, DEADLINE_S) == 0
                task.cancel()

    run(scenario)


def test_what_an_origin_does_not_have_is_told_and_not_asked_for_again_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        with penstock_server(in_folder(tmp_path, "o"), (), "[defaults]\nplay_wait_s = 0\n") as origin:
            config = pull_config(LOCAL.format(port=origin.port))
            with penstock_server(in_folder(tmp_path, "e"), [*TWO_WORKERS, *HTTP], config) as edge:
                async with RawClients(edge.port) as at_edge:
                    for _ in range(4):
                        viewer = await at_edge.viewer("nowhere")
                        await viewer.until_code(NOT_FOUND)
                    assert len(lines(edge, "Pull missed")) == 1
                    origin.wait_for_play("nowhere", 1)
                    assert len(lines(origin, "play stopped")) == 1
                    assert await asyncio.to_thread(streams_of, edge) == []

    run(scenario)


def test_servers_that_pull_from_each_other_do_not_ask_in_circles(tmp_path: Path) -> None:
    here, there = free_port(), free_port()

    async def scenario() -> None:
        with (
            penstock_server(
                in_folder(tmp_path, "a"), ["--rtmp", f"127.0.0.1:{here}"], pull_config(LOCAL.format(port=there))
            ) as one,
            penstock_server(
                in_folder(tmp_path, "b"), ["--rtmp", f"127.0.0.1:{there}"], pull_config(LOCAL.format(port=here))
            ) as other,
        ):
            async with RawClients(here) as at_one, RawClients(there) as at_other:
                began_at = time.monotonic()
                viewer = await at_one.viewer("nowhere")
                await viewer.until_code(NOT_FOUND)
                assert time.monotonic() - began_at < 5.0
                assert len(lines(one, "Connection closed: pulls or pushes go in a circle")) == 1
                assert len(lines(other, "Pull came to nothing")) == 1
                # What one of them has, the other one gets.
                _, task = await broadcast_to(at_other, "somewhere")
                await until_numbers(await at_one.viewer("somewhere"), 20)
                task.cancel()

    run(scenario)


def test_a_server_that_pulls_from_itself_tells_its_viewers_that_it_has_no_such_stream(tmp_path: Path) -> None:
    port = free_port()

    async def scenario() -> None:
        config = pull_config(LOCAL.format(port=port))
        with penstock_server(in_folder(tmp_path, "a"), ["--rtmp", f"127.0.0.1:{port}"], config) as server:
            async with RawClients(port) as clients:
                viewer = await clients.viewer("nowhere")
                await viewer.until_code(NOT_FOUND)
                assert len(lines(server, "Connection closed: pulls or pushes go in a circle")) == 1

    run(scenario)


def test_there_are_no_more_pulls_than_are_allowed(tmp_path: Path) -> None:
    async def scenario() -> None:
        with penstock_server(in_folder(tmp_path, "o")) as origin:
            config = pull_config(LOCAL.format(port=origin.port)) + "[limits]\nmax_pulls = 1\n"
            with penstock_server(in_folder(tmp_path, "e"), TWO_WORKERS, config) as edge:
                async with RawClients(origin.port) as at_origin, RawClients(edge.port) as at_edge:
                    tasks = [(await broadcast_to(at_origin, name))[1] for name in ("a", "b")]
                    await until_numbers(await at_edge.viewer("a"), 10)
                    refused = await at_edge.viewer("b")
                    await refused.until_code(NOT_FOUND)
                    assert lines(edge, "Limit hit: pulls")
                    for task in tasks:
                        task.cancel()

    run(scenario)


def test_a_publisher_at_the_edge_takes_the_place_of_what_is_pulled(tmp_path: Path) -> None:
    async def scenario() -> None:
        with penstock_server(in_folder(tmp_path, "o")) as origin:
            config = pull_config(LOCAL.format(port=origin.port))
            with penstock_server(in_folder(tmp_path, "e"), TWO_WORKERS, config) as edge:
                async with RawClients(origin.port) as at_origin, RawClients(edge.port) as at_edge:
                    _, task = await broadcast_to(at_origin)
                    viewers = [await at_edge.viewer("a") for _ in range(2)]
                    for viewer in viewers:
                        await until_numbers(viewer, 20)
                    _, own = await broadcast_to(at_edge, tag=2)
                    for viewer in viewers:
                        await until_numbers(viewer, 20, tag=2)
                        assert ENDED not in viewer.codes()
                    await until(lambda: lines(origin, "play stopped"), "the end of the pull")
                    task.cancel()
                    own.cancel()

    run(scenario)


def test_nginx_rtmp_is_an_origin_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        with nginx_rtmp() as origin:
            config = pull_config(f"{origin.url}/{{stream}}")
            with penstock_server(in_folder(tmp_path, "e"), TWO_WORKERS, config) as edge:
                async with RawClients(origin.port) as at_origin, RawClients(edge.port) as at_edge:
                    early = await at_edge.viewer("a")
                    _, task = await broadcast_to(at_origin)
                    for viewer in (early, await at_edge.viewer("a")):
                        # nginx begins with pictures alone.
                        assert gaps((await until_numbers(viewer, 60))[-30:]) == 0
                    # nginx says nothing of a stream that nobody publishes, and only that it plays.
                    nobody = await at_edge.viewer("nowhere")
                    await nobody.until_code(NOT_FOUND, 15.0)
                    task.cancel()

    run(scenario)


def test_an_edge_shows_its_key_to_an_origin_under_tls_and_to_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, port, edge_dir = "hunter2hunter2", free_port(), in_folder(tmp_path, "e")
    files = Files.made_in(tmp_path)
    files.authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("EDGE_KEY", key)
    rules = f'[access.live]\npublish = ["open"]\nplay = ["key"]\nkeys = ["edge:sha256:{_sha256(key)}"]\n'
    tls = ["--rtmps", f"127.0.0.1:{port}", "--cert", str(files.cert), "--key", str(files.key)]

    async def scenario() -> None:
        with penstock_server(in_folder(tmp_path, "o"), tls, rules) as origin:
            url = f"rtmps://localhost:{port}/{{app}}/{{stream}}"
            config = pull_config(url, more='key = "env:EDGE_KEY"')
            trust = ["env", f"SSL_CERT_FILE={tmp_path / 'ca.pem'}"]
            with penstock_server(edge_dir, HTTP, config, trust) as edge:
                async with RawClients(origin.port) as at_origin, RawClients(edge.port) as at_edge:
                    _, task = await broadcast_to(at_origin)
                    await until_numbers(await at_edge.viewer("a"), 20)
                    task.cancel()
                    (stream,) = await asyncio.to_thread(streams_of, edge)
                    assert stream["publisher"]["pulled_from"] == f"rtmps://localhost:{port}/live/a"
                    shown = json.dumps(await asyncio.to_thread(get, edge, "/api/v1/config"))
                    assert key not in shown
            text = edge.program.log_text() + json.dumps(facts(edge_dir / "data", "publish_started"))
            assert key not in text
            assert key.encode().hex(" ") not in text

    run(scenario)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_examples_are_an_origin_for_edges_alone_and_an_edge_for_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "hunter2hunter2"
    monkeypatch.setenv("EDGE_KEY", key)
    origin_text, edge_text = ((EXAMPLES / name).read_text(encoding="utf-8") for name in ("origin.toml", "edge.toml"))
    assert ("0" * 64 in origin_text, "rtmp://origin.example/" in edge_text) == (True, True)

    async def scenario() -> None:
        with penstock_server(in_folder(tmp_path, "o"), (), origin_text.replace("0" * 64, _sha256(key))) as origin:
            config = edge_text.replace("origin.example", f"127.0.0.1:{origin.port}")
            with penstock_server(in_folder(tmp_path, "e"), [*TWO_WORKERS, *HTTP], config) as edge:
                async with RawClients(origin.port) as at_origin, RawClients(edge.port) as at_edge:
                    _, task = await broadcast_to(at_origin)
                    await until_numbers(await at_edge.viewer("a"), 20)
                    http = edge.wait_for_line("server started")["http"]
                    assert (await asyncio.to_thread(_first_bytes, f"http://{http}/live/a.flv", 3)) == b"FLV"
                    at_the_source = await at_origin.viewer("a")
                    await at_the_source.until_code("NetStream.Play.Failed")
                    stranger = await at_edge.open()
                    await stranger.connect_app()
                    stream_id = await stranger.create_stream()
                    stranger.call("publish", 5.0, None, "a", "live", stream_id=stream_id)
                    await stranger.until_code("NetStream.Publish.Denied")
                    task.cancel()

    run(scenario)


def _first_bytes(url: str, count: int) -> bytes:
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        data: bytes = answer.read(count)
        return data
