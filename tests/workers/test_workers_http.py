"""FLV over HTTP on a whole server of two workers: every byte, whoever has the stream, and what is told of it."""

import asyncio
import json
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import websockets

from penstock.access.keys import key_line
from tests.support.http_viewer import HttpFlvViewer
from tests.support.raw_media import check_start, gaps, numbers
from tests.support.tls import Files, trusting
from tests.workers.workers_stage import QUICK, PlacedClients, Workers, send_for, two_workers, wait_for

KEY = "kkkkstudiokeyofonehundredsixtybi"
ROLE_KEY = "kkkkbosskeyofonehundredsixtybits"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def port_of(workers: Workers, scheme: str = "http") -> int:
    return int(str(workers.server.wait_for_line("server started")[scheme]).rpartition(":")[2])


def run(workers: Workers, scenario: Any) -> None:
    async def main() -> None:
        async with PlacedClients(workers) as clients:
            await scenario(clients)

    asyncio.run(main())


def _has_frames_of_second(viewer: HttpFlvViewer) -> bool:
    """Whether it has a picture of the publication whose tag is 2."""
    return any(message.payload[5:9] == b"\0\0\0\2" for message in viewer.media()[20:])


def views(workers: Workers) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(workers.get("/api/v1/viewers"))["items"]
    return items


def test_viewers_over_http_get_every_frame_in_both_workers_and_facts_tell_of_them(folder: Path) -> None:
    with two_workers(folder, has_http=True) as workers:
        port = port_of(workers)

        async def scenario(clients: PlacedClients) -> None:
            broadcast = await clients.publisher_in(1)
            sending = asyncio.create_task(send_for(broadcast, 4.0))
            await asyncio.sleep(1.0)
            viewers = [await HttpFlvViewer.open(port) for _ in range(6)]
            await asyncio.gather(*(viewer.watch_more_than(80) for viewer in viewers))
            told = wait_for(lambda: found if len(found := views(workers)) == 6 else None, "six views")
            assert {view["protocol"] for view in told} == {"http-flv"}
            assert {view["worker"] for view in told} == {1, 2}
            assert workers.wait_for_metrics(penstock_viewers=6.0)
            await sending
            for viewer in viewers:
                check_start(viewer.media())
                assert gaps(numbers(viewer.media())) == 0
                viewer.writer.transport.abort()
            stopped = await asyncio.to_thread(workers.wait_for_facts, "play_stopped", 6)
            assert {fact["protocol"] for fact in stopped} == {"http-flv"}
            assert all(fact["sent_bytes"] > 10_000 for fact in stopped)

        run(workers, scenario)


def test_one_who_waits_for_a_stream_gets_it_from_its_first_frame_and_others_hear_that_it_is_not_there(
    folder: Path,
) -> None:
    with two_workers(folder, has_http=True) as workers:
        port = port_of(workers)

        async def scenario(clients: PlacedClients) -> None:
            async with await HttpFlvViewer.open(port) as impatient, await HttpFlvViewer.open(port) as late:
                assert (await impatient.read_head()).startswith(b"HTTP/1.1 404 ")
                assert b"\r\nRetry-After: 1\r\n" in impatient.head
                late.writer.transport.abort()
            patient = [await HttpFlvViewer.open(port, "/live/a.flv?wait_s=10") for _ in range(4)]
            await asyncio.sleep(0.5)
            broadcast = await clients.publisher_in(1)
            await send_for(broadcast, 1.0)
            for viewer in patient:
                await viewer.watch_more_than(30)
                assert numbers(viewer.media())[0] == 0
                viewer.writer.transport.abort()

        run(workers, scenario)


def test_a_viewer_stays_over_a_publisher_that_is_lost_and_hears_the_end_of_the_stream(folder: Path) -> None:
    with two_workers(folder, has_http=True) as workers:
        port = port_of(workers)

        async def scenario(clients: PlacedClients) -> None:
            first = await clients.publisher_in(1)
            sending = asyncio.create_task(send_for(first, 1.5))
            viewers = [await HttpFlvViewer.open(port, "/live/a.flv?wait_s=5") for _ in range(4)]
            for viewer in viewers:
                await viewer.watch_more_than(20)
            await sending
            first.client.transport.abort()
            second = await clients.publisher_in(2, tag=2)
            sending = asyncio.create_task(send_for(second, 1.5))
            for viewer in viewers:
                await viewer.watch(partial(_has_frames_of_second, viewer))
            await sending
            second.client.transport.abort()
            for viewer in viewers:
                await viewer.watch(lambda: False)
                assert viewer.has_ended
                times = [message.timestamp_ms for message in viewer.media() if message.payload[1] == 1]
                assert times == sorted(times)
                viewer.writer.transport.abort()

        run(workers, scenario)


def test_a_slow_viewer_skips_or_is_closed_and_the_others_notice_nothing(folder: Path) -> None:
    config = QUICK + "[relay]\nslow_viewer_s = 1.5\nmax_log_s = 1\n"
    with two_workers(folder, config, has_http=True) as workers:
        port = port_of(workers)

        async def scenario(clients: PlacedClients) -> None:
            broadcast = await clients.publisher_in(1)
            sending = asyncio.create_task(send_for(broadcast, 8.0, size=40_000))
            await asyncio.sleep(0.3)
            slow = await HttpFlvViewer.open(port, receive_buffer_bytes=16 * 1024)
            brave = await HttpFlvViewer.open(port)
            await slow.watch(lambda: len(slow.media()) > 2)
            await brave.watch(lambda: len(brave.media()) > 200)
            assert gaps(numbers(brave.media())) == 0
            closed = await asyncio.to_thread(
                wait_for,
                lambda: [line for line in workers.server.log_lines() if "no whole message" in str(line["msg"])],
                "it",
            )
            assert closed
            sending.cancel()
            for viewer in (slow, brave):
                viewer.writer.transport.abort()

        run(workers, scenario)


def test_a_view_over_http_can_be_kicked(folder: Path) -> None:
    config = QUICK + f'[api]\nkeys = ["boss:admin:{key_line("boss", ROLE_KEY).partition(":")[2]}"]\n'
    with two_workers(folder, config, has_http=True) as workers:
        port = port_of(workers)

        async def scenario(clients: PlacedClients) -> None:
            broadcast = await clients.publisher_in(1)
            sending = asyncio.create_task(send_for(broadcast, 6.0))
            await asyncio.sleep(0.3)
            viewer = await HttpFlvViewer.open(port)
            await viewer.watch(lambda: len(viewer.media()) > 5)
            (view,) = await asyncio.to_thread(wait_for, lambda: views(workers), "the view")
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/api/v1/viewers/{view['view_id']}",
                method="DELETE",
                headers={"Authorization": f"Bearer {ROLE_KEY}"},
            )
            await asyncio.to_thread(urllib.request.urlopen, request)
            await viewer.watch(lambda: False)
            assert viewer.has_ended
            assert await asyncio.to_thread(wait_for, lambda: not views(workers), "its end")
            viewer.writer.transport.abort()
            sending.cancel()

        run(workers, scenario)


def test_a_connection_is_kept_and_then_webs(folder: Path) -> None:
    with two_workers(folder, has_http=True) as workers:
        port = port_of(workers)

        async def scenario(_clients: PlacedClients) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for method, expected in (("HEAD", b"HTTP/1.1 404 "), ("OPTIONS", b"HTTP/1.1 204 ")):
                writer.write(f"{method} /live/a.flv HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(expected)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.close()

        run(workers, scenario)


def test_under_tls_viewers_are_served_alike(folder: Path) -> None:
    files = Files.made_in(folder)
    config = QUICK + f'[http]\ncert = "{files.cert}"\nkey = "{files.key}"\n'
    with two_workers(folder, config, has_http=True) as workers:
        port = port_of(workers, "https")
        tls = trusting(files.authority)

        async def scenario(clients: PlacedClients) -> None:
            broadcast = await clients.publisher_in(1)
            sending = asyncio.create_task(send_for(broadcast, 3.0, size=30_000))
            await asyncio.sleep(0.3)
            viewers = [await HttpFlvViewer.open(port, tls=tls) for _ in range(4)]
            for viewer in viewers:
                await viewer.watch_more_than(60)
                check_start(viewer.media())
                assert gaps(numbers(viewer.media())) == 0
                viewer.writer.transport.abort()
            async with websockets.connect(f"wss://localhost:{port}/live/a.flv", ssl=tls) as socket:
                assert await socket.recv() == b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"
            await sending

        run(workers, scenario)


def test_over_a_websocket_each_message_is_a_tag_and_pings_are_answered(folder: Path) -> None:
    with two_workers(folder, has_http=True) as workers:
        port = port_of(workers)

        async def scenario(clients: PlacedClients) -> None:
            broadcast = await clients.publisher_in(1)
            sending = asyncio.create_task(send_for(broadcast, 3.0, size=70_000))
            await asyncio.sleep(0.3)
            async with websockets.connect(f"ws://127.0.0.1:{port}/live/a.flv") as socket:
                assert await socket.recv() == b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"
                pong = await socket.ping()
                for _ in range(60):
                    tag = await socket.recv()
                    assert isinstance(tag, bytes)
                    size = int.from_bytes(tag[1:4], "big")
                    assert len(tag) == 11 + size + 4
                await asyncio.wait_for(pong, 5)
                (view,) = await asyncio.to_thread(wait_for, lambda: views(workers), "the view")
                assert view["protocol"] == "ws-flv"
            assert await asyncio.to_thread(wait_for, lambda: not views(workers), "its end")
            await sending

        run(workers, scenario)


def test_access_is_asked_as_over_rtmp(folder: Path) -> None:
    line = key_line("studio", KEY)
    config = QUICK + f'[access.live]\npublish = ["open"]\nplay = ["key"]\nkeys = ["{line}"]\n'
    with two_workers(folder, config, has_http=True) as workers:
        port = port_of(workers)

        async def scenario(clients: PlacedClients) -> None:
            broadcast = await clients.publisher_in(1)
            sending = asyncio.create_task(send_for(broadcast, 4.0))
            await asyncio.sleep(0.3)
            for target, headers, status in (
                ("/live/a.flv", "", b"401"),
                ("/live/a.flv?key=wrong", "", b"403"),
                (f"/live/a.flv?key={KEY}", "", b"200"),
                ("/live/a.flv", f"Authorization: Bearer {KEY}\r\n", b"200"),
            ):
                async with await HttpFlvViewer.open(port, target, headers=headers) as viewer:
                    assert (await viewer.read_head()).split(b" ")[1] == status
            await sending

        run(workers, scenario)
        assert KEY not in "".join(map(str, workers.server.log_lines()))
