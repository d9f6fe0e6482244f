"""Random kills of workers under a crowd that comes back: whoever is elsewhere must lose nothing.

Owns the crowd, its checks and the killer. A connection may end only with its worker; numbers of messages may be missing
only where a publisher was lost, and then the stream goes on at the first message of the next one. Clients are slow
Python, so the crowd is small: what is proven here is that nothing is lost or left, not how much a server can do.
"""

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter

from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import Broadcast, is_setup, number_of
from tests.support.raw_rtmp import RawMessage

from bench.servers import RunningServer

STREAMS = 4
VIEWERS_EACH = 6
FRAMES_PER_S = 20
RETRY_S = 0.2
SETTLE_S = 2.0
NOTICE_S = 3.0
"""A client hears of the end of its worker within this time, on a busy machine."""


class _Killer:
    """Ends workers, and knows which ended when."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self.killed_at: dict[int, float] = {}
        self.kills = 0

    def lines(self) -> list[dict[str, object]]:
        lines = self._server.program.log_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def kill_one(self) -> None:
        pids = {
            int(str(each["worker"])): int(str(each["pid"])) for each in self.lines() if each["msg"] == "worker started"
        }
        worker = self._random.choice(sorted(pids))
        self.killed_at[worker] = time.monotonic()
        self.kills += 1
        try:
            os.kill(pids[worker], signal.SIGKILL)
        except ProcessLookupError:
            return  # it was killed a moment ago and is not back

    def has_killed(self, address: str) -> bool:
        """Whether the worker of a connection was killed just now."""
        accepted = f"Connection accepted from {address}"
        workers = [int(str(line["worker"])) for line in self.lines() if line["msg"] == accepted]
        # Before it is accepted there is no telling who had it.
        worker = workers[-1] if workers else None
        ends = list(self.killed_at.values()) if worker is None else [self.killed_at.get(worker, -NOTICE_S)]
        return any(time.monotonic() - ended < NOTICE_S for ended in ends)


class Crowd:
    """Publishers and viewers that come back for as long as it goes on."""

    def __init__(self, clients: RawClients, killer: _Killer) -> None:
        self._clients = clients
        self._killer = killer
        self._next_numbers: Counter[int] = Counter()
        self._beginnings: dict[int, set[int]] = {tag: set() for tag in range(STREAMS)}
        """The first messages of publications, by stream."""
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        self.is_over = False

    async def publish(self, tag: int) -> None:
        """One publisher, again and again."""
        while not self.is_over:
            try:
                client = await self._clients.open()
                address = _address_of(client)
                broadcast = Broadcast(client, await client.publish(f"s{tag}"), tag, gop=FRAMES_PER_S)
            except (AssertionError, OSError):
                self.counts["publishers turned away"] += 1
                await asyncio.sleep(RETRY_S)
                continue
            broadcast.next_number = self._next_numbers[tag]
            self._beginnings[tag].add(broadcast.next_number)
            broadcast.send_setup()
            while not self.is_over and not client.is_closed:
                broadcast.send_video(2000, step_ms=1000 // FRAMES_PER_S)
                self._next_numbers[tag] = broadcast.next_number
                await asyncio.sleep(1 / FRAMES_PER_S)
            self._judge_end(client, address, f"publisher {tag}")

    async def watch(self, tag: int) -> None:
        """One viewer, again and again."""
        while not self.is_over:
            last: list[int] = []

            def check(message: RawMessage, last: list[int] = last) -> None:
                if not is_setup(message.payload):
                    self._check(tag, last, number_of(message.payload, tag))

            try:
                client = await self._clients.open()
                client.keeps_media = False
                client.on_media = check
                address = _address_of(client)
                await client.play(f"s{tag}")
            except (AssertionError, OSError):
                self.counts["viewers turned away"] += 1
                await asyncio.sleep(RETRY_S)
                continue
            while not self.is_over and not client.is_closed and "NetStream.Play.Stop" not in client.codes():
                await asyncio.sleep(RETRY_S)
            if not self.is_over and not client.is_closed:
                self.faults.append(f"a stream of viewer {tag} ended")
            self._judge_end(client, address, f"viewer {tag}")
            if self.is_over and last and last[0] != self._next_numbers[tag] - 1:
                self.faults.append(f"viewer {tag} has {last[0]} of {self._next_numbers[tag] - 1} in the end")

    def _check(self, tag: int, last: list[int], number: int) -> None:
        self.counts["messages"] += 1
        if last and number != last[0] + 1 and not (number > last[0] and number in self._beginnings[tag]):
            self.faults.append(f"viewer {tag}: {number} behind {last[0]}")
        last[:] = [number]

    def _judge_end(self, client: RawClient, address: str, who: str) -> None:
        if client.is_closed and not self.is_over:
            self.counts["connections lost"] += 1
            if not self._killer.has_killed(address):
                self.faults.append(f"{who} was cut off, and its worker was not killed")


def _address_of(client: RawClient) -> str:
    host, port = client.transport.get_extra_info("sockname")
    return f"{host}:{port}"


async def _run(server: RunningServer, seconds: float, kill_every_s: float, seed: int) -> tuple[Crowd, int]:
    killer = _Killer(server, seed)
    async with RawClients(server.port) as clients:
        crowd = Crowd(clients, killer)
        publishers = [asyncio.create_task(crowd.publish(tag)) for tag in range(STREAMS)]
        viewers = [asyncio.create_task(crowd.watch(n % STREAMS)) for n in range(STREAMS * VIEWERS_EACH)]
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            await asyncio.sleep(min(kill_every_s, max(0.0, ends_at - time.monotonic())))
            if time.monotonic() < ends_at:
                killer.kill_one()
        await asyncio.sleep(SETTLE_S)
        crowd.is_over = True
        await asyncio.gather(*publishers)
        await asyncio.gather(*viewers)
    return crowd, killer.kills


def run_with_kills(server: RunningServer, seconds: float, kill_every_s: float, seed: int = 1) -> list[str]:
    """What went wrong. What was done is printed."""
    crowd, kills = asyncio.run(_run(server, seconds, kill_every_s, seed))
    print(f"{kills} kills, {dict(crowd.counts)}, {len(crowd.faults)} faults", flush=True)
    return crowd.faults
