"""Limits, totals and addresses over two workers: exact, as if there was one."""

import asyncio
import http.client
import json
import socket
import ssl
import struct
from collections import Counter
from pathlib import Path

import pytest

from tests.support.raw_clients import RawClient
from tests.support.tls import Files, trusting
from tests.workers.workers_stage import PlacedClients, Workers, send_for, two_workers, until_number, wait_for

SOURCE = "127.0.0.5"


async def is_closed_soon(client: RawClient, deadline_s: float = 1.0) -> bool:
    """Whether the server turns somebody away."""
    try:
        await client.until_closed(deadline_s)
    except AssertionError:
        return False
    return True


async def let_in_of(clients: list[RawClient]) -> int:
    refused = await asyncio.gather(*(is_closed_soon(client) for client in clients))
    return refused.count(False)


def test_connections_are_limited_over_both_workers_in_all_and_by_address(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            of_one = [await clients.open(source=SOURCE) for _ in range(9)]
            assert await let_in_of(of_one) == 6
            of_many = [await clients.open(source=f"127.0.1.{number}") for number in range(1, 12)]
            assert await let_in_of(of_many) == 10 - 6

    limits = "[limits]\nmax_connections = 10\nmax_connections_per_ip = 6\nexempts_loopback = false\n"
    with two_workers(tmp_path, limits) as workers:
        asyncio.run(scenario(PlacedClients(workers)))
        # One line a second, whatever limits were hit.
        limits_hit = {line["limit"] for line in workers.server.log_lines() if "limit" in line}
        assert limits_hit
        assert limits_hit <= {"connections", "connections per address"}


def test_viewers_of_a_stream_are_limited_over_both_workers(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            broadcast = await clients.publisher_in(1)
            viewers = [await clients.viewer_in(1 + number % 2) for number in range(8)]
            for viewer in viewers:
                await viewer.until(lambda seen=viewer: _verdict(seen), "a verdict")  # type: ignore[misc]
            verdicts = Counter(_verdict(viewer) for viewer in viewers)
            assert verdicts == {"NetStream.Play.Start": 5, "NetStream.Play.Failed": 3}
            next(viewer for viewer in viewers if _verdict(viewer) == "NetStream.Play.Start").transport.abort()
            await asyncio.sleep(0.5)
            next_one = await clients.viewer_in(2)
            await next_one.until_code("NetStream.Play.Start")
            await send_for(broadcast, 0.2)

    with two_workers(tmp_path, "[limits]\nmax_viewers_per_stream = 5\n[defaults]\ngrace_s = 1\n") as workers:
        asyncio.run(scenario(PlacedClients(workers)))


def _verdict(viewer: RawClient) -> str | None:
    return next((code for code in viewer.codes() if code in ("NetStream.Play.Start", "NetStream.Play.Failed")), None)


def test_of_two_hundred_connections_no_worker_has_more_than_six_in_ten(tmp_path: Path) -> None:
    async def scenario(workers: Workers, clients: PlacedClients) -> None:
        async with clients:
            for _ in range(200):
                await clients.open()
            await asyncio.to_thread(wait_for, lambda: len(_accepted(workers)) >= 200, "200 connections")

    with two_workers(tmp_path) as workers:
        asyncio.run(scenario(workers, PlacedClients(workers)))
        assert max(Counter(line["worker"] for line in _accepted(workers)).values()) <= 120


def _accepted(workers: Workers) -> list[dict[str, object]]:
    return [line for line in workers.server.log_lines() if str(line["msg"]).startswith("Connection accepted from")]


def test_figures_and_facts_are_what_clients_counted_over_both_workers(tmp_path: Path) -> None:
    async def scenario(workers: Workers, clients: PlacedClients) -> None:
        async with clients:
            broadcasts = [await clients.publisher_in(worker, f"s{worker}", worker) for worker in (1, 2)]
            viewers = [
                (stream, await clients.viewer_in(worker, f"s{stream}")) for stream in (1, 2) for worker in (1, 1, 2)
            ]
            for _, viewer in viewers:
                await viewer.until_code("NetStream.Play.Start")
            await asyncio.gather(*(send_for(broadcast, 2.5) for broadcast in broadcasts))
            for stream, viewer in viewers:
                await until_number(viewer, broadcasts[stream - 1].next_number - 1, tag=stream)
            sent = sum(broadcast.next_number + 2 for broadcast in broadcasts)
            found = await asyncio.to_thread(
                workers.wait_for_metrics,
                penstock_connections=8,
                penstock_publishers=2,
                penstock_streams=2,
                penstock_viewers=6,
                penstock_media_messages_total=sent,
            )
            assert found['penstock_worker_connections{worker="1"}'] + found[
                'penstock_worker_connections{worker="2"}'
            ] == pytest.approx(8)
            assert found['penstock_worker_publishers{worker="1"}'] == 1
            assert found['penstock_worker_publishers{worker="2"}'] == 1
            heard = [client.received_bytes for client in clients.opened]
            await asyncio.to_thread(workers.wait_for_metrics, penstock_sent_bytes_total=sum(heard))

    with two_workers(tmp_path, has_http=True) as workers:
        asyncio.run(scenario(workers, PlacedClients(workers)))
        stopped = workers.wait_for_facts("play_stopped", 6)
        assert len(workers.facts("play_started")) == len(stopped) == 6
        assert len(workers.wait_for_facts("publish_stopped", 2)) == 2
        assert Counter(fact["worker"] for fact in stopped) == {1: 4, 2: 2}
        samples = workers.facts("stream_sample")
        assert {fact["stream"] for fact in samples} == {"s1", "s2"}
        assert {fact["viewers"] for fact in samples if fact["messages"] > 40} == {3}
        boots = {fact["boot_id"]: fact["worker"] for fact in workers.facts()}
        assert sorted(boots.values()) == [1, 2]


def test_http_is_answered_through_the_workers_with_the_address_of_the_client(tmp_path: Path) -> None:
    with two_workers(tmp_path, has_http=True) as workers:
        assert workers.get("/healthz")
        assert workers.get("/readyz")
        host, port = workers.http.split(":")
        for _ in range(8):
            connection = http.client.HTTPConnection(host, int(port), timeout=10, source_address=(SOURCE, 0))
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            assert answer.status == 200
            assert b"penstock_connections 0" in answer.read()
            connection.close()
        workers.wait_for_metrics(penstock_connections=0)


def test_http_under_tls_is_answered_by_the_same_web_process(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)
    config = f'[http]\ncert = "{files.cert}"\nkey = "{files.key}"\n'
    with two_workers(tmp_path, config, has_http=True) as workers:
        started = workers.server.wait_for_line("server started")
        host, port = str(started.get("https") or started["http"]).split(":")
        for path in ("/healthz", "/readyz", "/metrics"):
            raw = socket.create_connection((host, int(port)), 10)
            with trusting(files.authority).wrap_socket(raw, server_hostname="localhost") as secured:
                secured.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer = b""
                while piece := _received(secured):
                    answer += piece
            assert answer.startswith(b"HTTP/1.1 200"), answer[:200]


def _received(secured: ssl.SSLSocket) -> bytes:
    try:
        return secured.recv(65536)
    except ssl.SSLEOFError:
        return b""


def proxied_v1(ip: str, port: int) -> bytes:
    return f"PROXY TCP4 {ip} 192.0.2.200 {port} 1935\r\n".encode()


def proxied_v2(ip: str, port: int) -> bytes:
    addresses = socket.inet_aton(ip) + socket.inet_aton("192.0.2.200") + struct.pack(">HH", port, 1935)
    return b"\r\n\r\n\x00\r\nQUIT\n\x21\x11" + struct.pack(">H", len(addresses)) + addresses


def test_behind_a_proxy_the_address_that_it_gives_is_told_and_limited(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            told = [
                await clients.open(proxy_header=proxied_v1("198.51.100.7", 4001)),
                await clients.open(proxy_header=proxied_v2("198.51.100.8", 4002)),
            ]
            for client in told:
                await client.connect_app()
            crowd = [await clients.open(proxy_header=proxied_v2("198.51.100.9", 5000 + n)) for n in range(6)]
            assert await let_in_of(crowd) == 3
            stranger = await clients.open()
            assert await is_closed_soon(stranger, 8.0), "one without the header is turned away"

    config = "[rtmp]\nproxy_protocol = true\n[limits]\nmax_connections_per_ip = 3\n[facts]\nflush_s = 0.1\n"
    with two_workers(tmp_path, config) as workers:
        asyncio.run(scenario(PlacedClients(workers)))
        addresses = {fact["peer_addr"] for fact in workers.wait_for_facts("connection_opened", 5)}
        assert {"198.51.100.7:4001", "198.51.100.8:4002"} <= addresses
        assert not [address for address in addresses if address.startswith("127.")]
        assert workers.lines("Connection accepted from 198.51.100.7:4001")
        assert "127.0.0.1" not in json.dumps([line.get("peer_addr") for line in _accepted(workers)])
