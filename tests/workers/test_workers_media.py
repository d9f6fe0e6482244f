"""Published in one worker, watched in both: every byte is the same, whoever sends it."""

import asyncio
from pathlib import Path

from tests.support.raw_media import Broadcast, check_start, gaps, is_key, numbers
from tests.support.raw_rtmp import AUDIO, VIDEO
from tests.support.tls import Files, trusting
from tests.workers.workers_stage import PlacedClients, send_for, two_workers, until_number


def test_viewers_in_both_workers_are_sent_the_same_bytes_from_the_first_message_on(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            early = [await clients.viewer_in(worker) for worker in (1, 2)]
            broadcast = await clients.publisher_in(1)
            watching = [await clients.viewer_in(worker) for worker in (1, 2, 2)]
            await send_for(broadcast, 1.0, size=20_000)
            last = broadcast.next_number - 1
            for viewer in (*early, *watching):
                await until_number(viewer, last)
                check_start(viewer.media())
                assert numbers(viewer.media()) == list(range(last + 1))
                assert viewer.media() == early[0].media()

    with two_workers(tmp_path) as workers:
        asyncio.run(scenario(PlacedClients(workers)))


def test_late_joiners_in_both_workers_begin_alike_at_a_key_frame(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            broadcast = await clients.publisher_in(2)
            await send_for(broadcast, 1.0)
            late = [await clients.viewer_in(worker) for worker in (1, 2)]
            for viewer in late:
                await viewer.until(lambda seen=viewer: len(seen.media()) > 3, "the beginning")  # type: ignore[misc]
            await send_for(broadcast, 1.0)
            for viewer in late:
                await until_number(viewer, broadcast.next_number - 1)
                check_start(viewer.media())
                assert gaps(numbers(viewer.media())) == 0
            assert late[0].media() == late[1].media()

    with two_workers(tmp_path) as workers:
        asyncio.run(scenario(PlacedClients(workers)))


def test_sound_alone_and_one_who_wants_sound_alone_are_served_in_the_other_worker(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            encoder = await clients.open_in(1)
            radio = Broadcast(encoder, await encoder.publish("radio"))
            tv = await clients.publisher_in(1, "tv", tag=2)
            listeners = [await clients.viewer_in(worker, "radio") for worker in (1, 2)]
            client = await clients.open_in(2)
            stream_id = await client.play("tv")
            client.call("receiveVideo", 0, None, False, stream_id=stream_id)
            await client.until_code("NetStream.Play.Start")
            for _ in range(30):
                radio.send_audio()
                tv.send_video()
                tv.send_audio()
                await asyncio.sleep(0.04)
            for listener in listeners:
                await until_number(listener, 29)
            assert listeners[0].media() == listeners[1].media()
            await client.until(lambda: len(client.media(AUDIO)) > 20, "sound")
            assert [message for message in client.media(VIDEO) if message.payload[1]] == []

    with two_workers(tmp_path) as workers:
        asyncio.run(scenario(PlacedClients(workers)))


def test_several_streams_cross_over_both_ways_and_are_kept_apart(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            streams = [await clients.publisher_in(1 + number % 2, f"s{number}", tag=number) for number in range(6)]
            viewers = [(n, await clients.viewer_in(worker, f"s{n}")) for n in range(6) for worker in (1, 2)]
            for _, viewer in viewers:
                await viewer.until_code("NetStream.Play.Start")
            await asyncio.gather(*(send_for(broadcast, 1.0) for broadcast in streams))
            for number, viewer in viewers:
                last = streams[number].next_number - 1
                await until_number(viewer, last, tag=number)
                assert numbers(viewer.media(), number) == list(range(last + 1))

    with two_workers(tmp_path) as workers:
        asyncio.run(scenario(PlacedClients(workers)))


def test_a_slow_viewer_in_the_other_worker_skips_to_a_key_frame_and_holds_up_nobody(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            broadcast = await clients.publisher_in(1)
            fast, slow = await clients.viewer_in(2), await clients.viewer_in(2, receive_buffer_bytes=4096)
            await slow.until_code("NetStream.Play.Start")
            await send_for(broadcast, 0.5)
            slow.transport.pause_reading()
            await send_for(broadcast, 4.0, size=100_000)
            slow.transport.resume_reading()
            await send_for(broadcast, 1.5)
            last = broadcast.next_number - 1
            await until_number(fast, last)
            assert gaps(numbers(fast.media())) == 0
            await until_number(slow, last)
            found = numbers(slow.media())
            assert gaps(found) > 0
            by_number = dict(zip(found, [m for m in slow.media() if m.payload[1]], strict=True))
            after_gaps = [number for number in found[1:] if number - 1 not in by_number]
            assert all(is_key(by_number[number].payload) for number in after_gaps)

    limits = "[relay]\nmax_log_s = 2\nmax_log_gops = 1\nslow_viewer_s = 20\n[defaults]\ngrace_s = 1\n"
    with two_workers(tmp_path, limits) as workers:
        asyncio.run(scenario(PlacedClients(workers)))


def test_a_viewer_under_tls_is_sent_the_same_in_either_worker(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)

    async def scenario(plain: PlacedClients, secured: PlacedClients) -> None:
        async with plain, secured:
            broadcast = await plain.publisher_in(1)
            context = trusting(files.authority)
            viewers = [await secured.viewer_in(worker, tls=context) for worker in (1, 2)]
            viewers.append(await plain.viewer_in(2))
            for viewer in viewers:
                await viewer.until_code("NetStream.Play.Start")
            await send_for(broadcast, 1.0, size=30_000)
            for viewer in viewers:
                await until_number(viewer, broadcast.next_number - 1)
                assert viewer.media() == viewers[-1].media()

    tls = f'[tls]\nlisten = "127.0.0.1:0"\ncert = "{files.cert}"\nkey = "{files.key}"\n'
    with two_workers(tmp_path, tls) as workers:
        port = int(str(workers.server.wait_for_line("server started")["rtmps"]).rpartition(":")[2])
        asyncio.run(scenario(PlacedClients(workers), PlacedClients(workers, port)))
