"""A server of two workers whose web process writes down what it knows: real processes, real links.

Run as a module it is the supervisor (`serve CONFIG DATA`) or that web process (`web FILE DESCRIPTOR`).
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from penstock.config_sources import load_with_origins
from penstock.serve.supervisor import run
from penstock.web.live.happenings import Happenings
from penstock.web.process import WebProcess
from tests.support.penstock_server import PenstockServer
from tests.support.processes import running
from tests.workers.workers_stage import Workers, wait_for

CONFIG = """
[server]
workers = 2
[rtmp]
listen = "127.0.0.1:0"
[http]
listen = "127.0.0.1:0"
[logs]
format = "json"
[facts]
enabled = false
[defaults]
grace_s = 5
"""
_WRITES_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Told:
    """The server, and what its web process knows."""

    workers: Workers
    path: Path

    def now(self) -> dict[str, Any]:
        """What it wrote down last."""
        try:
            known: dict[str, Any] = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            known = {"pid": 0, "whole": [], "streams": [], "views": [], "connections": [], "events": []}
        return known

    def wait_for(self, what: str, count: int, deadline_s: float = 15.0) -> list[dict[str, Any]]:
        """Streams, views or connections, once there are so many."""
        wait_for(lambda: len(self.now()[what]) == count, f"{count} {what}, not {self.now()[what]}", deadline_s)
        found: list[dict[str, Any]] = self.now()[what]
        return found

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Those of a kind."""
        return [event for event in self.now()["events"] if event["kind"] == kind]

    def wait_for_events(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        wait_for(lambda: len(self.events(kind)) >= count, f"{count} {kind}")
        return self.events(kind)


@contextmanager
def told_server(work_dir: Path) -> Iterator[Told]:
    """Serve for the length of the block."""
    config, told = work_dir / "penstock.toml", work_dir / "told.json"
    config.write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", __name__, "serve", str(config), str(work_dir / "data"), str(told)]
    with running(command, work_dir / "server.log") as program:
        started = PenstockServer(program, 0).wait_for_line("server started")
        server = PenstockServer(program, int(str(started["rtmp"]).rpartition(":")[2]))
        yield Told(Workers(server), told)
        status = program.stop(15.0)
        assert status == 0


def _write(happenings: Happenings, events: list[Any], path: Path) -> None:
    state = happenings.state
    known = {
        "pid": os.getpid(),
        "whole": sorted(state.whole_workers),
        "streams": [{**_plain(each.value), "worker": each.worker} for each in state.streams.values()],
        "views": [{**_plain(each.value), "worker": each.worker} for each in state.views.values()],
        "connections": [{**_plain(each.value), "worker": each.worker} for each in state.connections.values()],
        "events": events,
    }
    new = path.with_suffix(".new")
    new.write_bytes(json.dumps(known).encode())
    new.rename(path)


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: msgspec.to_builtins(each) for name, each in msgspec.structs.asdict(value).items() if name != "publisher"
    }
    publisher = getattr(value, "publisher", None)
    return fields if publisher is None else {**fields, "publication_id": publisher.publication_id}


async def _serve_web(path: Path, descriptor: int) -> int:
    web = WebProcess(socket.socket(fileno=descriptor))
    events: list[Any] = []

    async def write_down() -> None:
        is_listening = False
        while True:
            happenings = web.happenings
            if happenings is not None:
                if not is_listening:
                    happenings.listeners.append(
                        lambda event: None if event.is_sample else events.append(json.loads(event.data))
                    )
                    is_listening = True
                _write(happenings, events, path)
            await asyncio.sleep(_WRITES_EVERY_S)

    writing = asyncio.create_task(write_down())
    try:
        return await web.run()
    finally:
        writing.cancel()
        if web.happenings is not None:
            _write(web.happenings, events, path)


def main() -> int:
    role, *arguments = sys.argv[1:]
    if role == "web":
        return asyncio.run(_serve_web(Path(arguments[0]), int(arguments[1])))
    config, data_dir, told = arguments
    loaded = load_with_origins(Path(config), {}, {"--data": data_dir})
    return run(loaded, web_command=(sys.executable, "-m", __spec__.name, "web", told))


if __name__ == "__main__":
    sys.exit(main())
