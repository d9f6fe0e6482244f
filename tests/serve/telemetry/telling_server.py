"""A server on loopback that tells facts, which stay where a test can read them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.serve.boot import Boot
from penstock.serve.reactor import Reactor
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.observer import Observer
from penstock.serve.telemetry.address_quota import AddressQuota
from penstock.serve.telemetry.beacons import Beacons
from penstock.serve.telemetry.facts_observer import FactsObserver
from penstock.serve.telemetry.facts_writer import FactClock, FactsWriter
from penstock.serve.telemetry.meter import Meters
from tests.serve.live_server import LiveServer, live_server, wait_until

BOOT = Boot("b0a7", "b0a7")


class Told:
    """A server that tells facts, and the facts that it told."""

    def __init__(self, live: LiveServer, writer: FactsWriter, observer: FactsObserver, beacons: Beacons) -> None:
        self.live = live
        self.port = live.port
        self.observer = observer
        self.beacons = beacons
        self.writer = writer

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(data) for _, _, data in list(self.writer._pending) if data]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [fact for fact in self.all() if fact["kind"] == kind]

    def wait_for(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)


@contextmanager
def telling(
    settings: ServerSettings | None = None,
    clock: FactClock | None = None,
    sample_s: float = 60.0,
    others: tuple[Observer, ...] = (),
    quota: AddressQuota | None = None,
) -> Iterator[Told]:
    # The writer is never started: what it was given stays where the test can read it.
    writer = FactsWriter(Path("never opened"), "edge-1", BOOT, clock=clock)
    made: list[tuple[FactsObserver, Beacons]] = []

    def observers_on(reactor: Reactor) -> tuple[Observer, ...]:
        meters = Meters()
        observer = FactsObserver(writer, meters, reactor, quota, stream_sample_s=sample_s, viewer_sample_s=sample_s)
        beacons = Beacons(1, observer, writer, lambda: reactor.now)
        made.append((observer, beacons))
        return meters, beacons, observer

    with live_server(*others, settings=settings, observers_on=observers_on) as live:
        yield Told(live, writer, *made[0])
