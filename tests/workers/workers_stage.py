"""The stage of several workers: `penstock serve --workers 2`, clients that are placed in a worker, and its figures.

Owns the placing: the supervisor gives each connection to the worker with fewest, and the log says who has it. Also owns
what must be left when everything is over: no segment of a log in any process of the server.
"""

import asyncio
import json
import os
import signal
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.support.memory_of import family_of, wait_for_holdings
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import Broadcast, numbers

DEADLINE_S = 15.0
Fact = dict[str, Any]
Wanted = TypeVar("Wanted")

QUICK = """
[facts]
flush_s = 0.1
stream_sample_s = 1
[defaults]
grace_s = 5
"""


def wait_for(find: Callable[[], Wanted | None], what: str, deadline_s: float = DEADLINE_S) -> Wanted:
    """What is found, once it is."""
    give_up_at = time.monotonic() + deadline_s
    while not (found := find()):
        assert time.monotonic() < give_up_at, f"waited in vain for {what}"
        time.sleep(0.02)
    return found


@dataclass(frozen=True, slots=True)
class Workers:
    """A server with two workers."""

    server: PenstockServer

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def pid(self) -> int:
        return self.server.program.pid

    @property
    def data_dir(self) -> Path:
        return self.server.program.log_path.parent / "data"

    @property
    def http(self) -> str:
        """Where it serves HTTP, host and port."""
        return str(self.server.wait_for_line("server started")["http"])

    def lines(self, msg: str) -> list[dict[str, Any]]:
        return [line for line in self.server.log_lines() if line["msg"] == msg]

    def wait_for_lines(self, msg: str, count: int) -> list[dict[str, Any]]:
        return wait_for(lambda: found if len(found := self.lines(msg)) >= count else None, f"{count} {msg}")

    def pid_of(self, worker: int) -> int:
        """The process that is this worker now."""
        return int([line["pid"] for line in self.lines("worker started") if line["worker"] == worker][-1])

    def kill(self, worker: int) -> int:
        """End a worker at once, and wait until it is back. The process that it was."""
        pid, starts = self.pid_of(worker), len(self.lines("worker started"))
        os.kill(pid, signal.SIGKILL)
        self.wait_for_lines("worker started", starts + 1)
        return pid

    def facts(self, kind: str | None = None) -> list[Fact]:
        """All that were written so far, of all workers."""
        texts = [path.read_text(encoding="utf-8") for path in sorted((self.data_dir / "facts").rglob("*.jsonl"))]
        # The last line of a file may be half written.
        found = [json.loads(line) for text in texts for line in text.split("\n")[:-1]]
        return [fact for fact in found if kind in (None, fact["kind"])]

    def wait_for_facts(self, kind: str, count: int) -> list[Fact]:
        return wait_for(lambda: found if len(found := self.facts(kind)) >= count else None, f"{count} {kind}")

    def manifest(self) -> list[dict[str, Any]]:
        """Of recordings: the newest line of each segment, in the order of their beginnings."""
        newest: dict[tuple[str, int], dict[str, Any]] = {}
        for line in (self.data_dir / "recordings" / "manifest.jsonl").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            newest[entry["recording_id"], entry["segment"]] = entry
        return list(newest.values())

    def get(self, path: str) -> str:
        """What HTTP answers."""
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=DEADLINE_S) as answer:
            text: str = answer.read().decode()
            return text

    def metrics(self) -> dict[str, float]:
        """Each by its name and labels."""
        lines = [line for line in self.get("/metrics").splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def wait_for_metrics(self, **wanted: float) -> dict[str, float]:
        """All metrics, once these are as wanted. Workers tell theirs once a second."""
        give_up_at = time.monotonic() + DEADLINE_S
        while True:
            found = self.metrics()
            differing = {name: found.get(name) for name, value in wanted.items() if found.get(name) != value}
            if not differing:
                return found
            assert time.monotonic() < give_up_at, f"{differing} in the place of {wanted}"
            time.sleep(0.2)


class PlacedClients(RawClients):
    """Clients of which a test says in which worker they are."""

    def __init__(self, workers: Workers, port: int | None = None) -> None:
        super().__init__(port or workers.port)
        self._workers = workers

    async def worker_of(self, client: RawClient) -> int:
        """Who has it."""
        host, port = client.transport.get_extra_info("sockname")
        accepted = f"Connection accepted from {host}:{port}"
        for _ in range(500):
            for line in self._workers.lines(accepted):
                return int(line["worker"])
            await asyncio.sleep(0.01)
        raise AssertionError(f"{host}:{port} was not accepted")

    async def open_in(
        self, worker: int, receive_buffer_bytes: int | None = None, tls: ssl.SSLContext | None = None
    ) -> RawClient:
        """A connection to a worker. Those that come to the other one meanwhile are closed afterwards."""
        others: list[RawClient] = []
        while await self.worker_of(client := await self.open(receive_buffer_bytes, tls=tls)) != worker:
            others.append(client)
            assert len(others) < 50, f"nobody comes to worker {worker}"
        for other in others:
            other.transport.abort()
        return client

    async def publisher_in(self, worker: int, name: str = "a", tag: int = 1, *, gop: int = 10) -> Broadcast:
        """A publication with its codec configuration sent."""
        client = await self.open_in(worker)
        broadcast = Broadcast(client, await client.publish(name), tag, gop=gop)
        broadcast.send_setup()
        return broadcast

    async def viewer_in(
        self,
        worker: int,
        name: str = "a",
        receive_buffer_bytes: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> RawClient:
        client = await self.open_in(worker, receive_buffer_bytes, tls)
        await client.play(name)
        return client


async def until_number(viewer: RawClient, number: int, tag: int = 1, deadline_s: float = DEADLINE_S) -> None:
    """Return once a viewer has a message of a publication."""
    await viewer.until(
        lambda: any(found == number for found in numbers(viewer.media(), tag)), f"message {number}", deadline_s
    )


async def send_for(broadcast: Broadcast, seconds: float, size: int = 500) -> None:
    """Pictures and sound in real time."""
    for _ in range(round(seconds * 25)):
        broadcast.send_video(size)
        broadcast.send_audio()
        await asyncio.sleep(0.04)


def logs_in_memory(pids: Sequence[int]) -> list[str]:
    """Segments that these processes have open or mapped."""
    found = []
    for pid in pids:
        try:
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                target = os.readlink(entry)
                found += [f"{entry} {target}"] if "penstock-log" in target else []
            maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
            found += [f"{pid} {line}" for line in maps.splitlines() if "penstock-log" in line]
        except OSError:
            continue  # it has ended, or closed what was there
    return found


def pids_on(data_dir: Path) -> list[int]:
    """Processes that have a lock or a file of a server open, whoever their parent is now."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            is_on = any(os.readlink(entry).startswith(str(data_dir)) for entry in Path(process, "fd").iterdir())
        except OSError:
            continue
        if is_on:
            found.append(int(process.name))
    return found


@contextmanager
def two_workers(
    work_dir: Path, config: str = QUICK, options: Sequence[str] = (), *, has_http: bool = False
) -> Iterator[Workers]:
    """A server for the length of the block. When its clients are gone it must hold no log, and in the end be gone."""
    http = ["--http", "127.0.0.1:0"] if has_http else []
    with penstock_server(work_dir, ["--workers", "2", "--log-level", "info", *http, *options], config) as server:
        workers = Workers(server)
        yield workers
        pids = family_of(workers.pid)
        held = wait_for_holdings(workers.pid, lambda now: now.memfd_bytes == 0, DEADLINE_S)
        assert held.memfd_bytes == 0, logs_in_memory(pids)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of all processes")
    assert pids_on(workers.data_dir) == []
