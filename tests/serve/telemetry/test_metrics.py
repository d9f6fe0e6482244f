"""Figures of a real server, taken on its loop."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, cast

import pytest

from penstock.control.figures import Figures
from penstock.relay.readable_log import LogLimits
from penstock.serve.boot import Boot
from penstock.serve.sending.round_times import RoundTimes
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.flusher import Flusher
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry import metrics as metrics_module
from penstock.serve.telemetry.address_quota import AddressQuota, QuotaLimits
from penstock.serve.telemetry.facts_writer import FactsWriter
from penstock.serve.telemetry.meter import Meters
from penstock.serve.telemetry.metrics import MetricsObserver
from tests.serve.live_server import LiveServer, inter_frame, key_frame, live_server, wait_until
from tests.support.rtmp_driver import LOOPBACK, rtmp_client


class Recorder:
    backlog_bytes = 5
    dropped_messages = 6


class Operator:
    """Someone who looks at a live server."""

    def __init__(self, live: LiveServer, observer: MetricsObserver) -> None:
        self.live = live
        self.port = live.port
        self._observer = observer

    def figures(self) -> Figures:
        taken: list[Figures] = []
        server = self.live.server
        server.reactor.call_from_thread(lambda: self._observer.take(server.broker, server.flusher, taken.append))
        wait_until(lambda: taken)
        return taken[0]


@contextmanager
def operated(settings: ServerSettings | None = None) -> Iterator[Operator]:
    meters = Meters()
    writer = FactsWriter(Path("never opened"), "edge-1", Boot("b0a7", "b0a7"))
    observer = MetricsObserver(meters, writer, Recorder())
    with live_server(meters, observer, settings=settings) as live:
        yield Operator(live, observer)


def test_what_clients_do_shows_in_the_figures() -> None:
    with operated() as operator, rtmp_client(operator.port) as publisher, rtmp_client(operator.port) as viewer:
        publisher.publish("test")
        viewer.play("test")
        publisher.send([key_frame(0), inter_frame(40)])
        wait_until(lambda: operator.figures().media_messages == 2)
        figures = operator.figures()
    assert (figures.connections, figures.publishers, figures.viewers, figures.streams) == (2, 1, 1, 1)
    assert figures.media_messages == 2
    assert figures.received_bytes > 2 * 3073 + 2000
    assert figures.sent_bytes > 2 * 3073 + 2000
    assert 2000 < figures.log_bytes < figures.log_budget_bytes == 2**30
    assert figures.flush_grid_s == 0
    assert sum(figures.round_counts) >= 1
    assert figures.round_sum_s > 0
    assert (figures.recorder_backlog_bytes, figures.recorder_dropped_messages) == (5, 6)
    assert (figures.facts_written, figures.facts_dropped) == (0, 0)


def test_how_busy_the_loop_is_is_told() -> None:
    with operated() as operator:
        wait_until(lambda: 0 < operator.figures().busy_share <= 1)


def test_counters_keep_what_closed_connections_did() -> None:
    with operated() as operator:
        for number in (1, 2):
            with rtmp_client(operator.port) as publisher, rtmp_client(operator.port) as viewer:
                publisher.publish(f"test {number}")
                viewer.play(f"test {number}")
                publisher.send([key_frame(0, 50_000)])
                wait_until(lambda number=number: operator.figures().sent_bytes > 50_000 * number)  # type: ignore[misc]
                before = operator.figures()
            wait_until(lambda: operator.figures().connections == 0)
        after = operator.figures()
    assert before.received_bytes <= after.received_bytes < before.received_bytes + 1000
    assert before.sent_bytes <= after.sent_bytes < before.sent_bytes + 1000
    assert after.media_messages == before.media_messages == 2


def test_those_who_misbehave_are_counted() -> None:
    with operated(ServerSettings(max_connections=1)) as operator:
        with socket.create_connection((LOOPBACK, operator.port)) as rude:
            rude.sendall(b"GET / HTTP/1.1\r\n\r\n".ljust(1537, b"\0"))
            assert rude.recv(1) == b""
        wait_until(lambda: operator.figures().connections == 0)
        with socket.create_connection((LOOPBACK, operator.port)):
            wait_until(lambda: operator.figures().connections == 1)
            with socket.create_connection((LOOPBACK, operator.port)) as second:
                assert second.recv(1) == b""
        figures = operator.figures()
    assert (figures.protocol_violations, figures.limits_hit) == (1, {"connections": 1})


def test_viewers_that_do_not_read_are_counted() -> None:
    settings = ServerSettings(slow_viewer_s=0.5, log_limits=LogLimits(max_gops=1))
    with operated(settings) as operator, rtmp_client(operator.port) as publisher, rtmp_client(operator.port) as viewer:
        publisher.publish("test")
        viewer.play("test")
        publisher.send((key_frame if each % 10 == 0 else inter_frame)(40 * each, 200_000) for each in range(100))
        wait_until(lambda: operator.figures().slow_viewers_closed == 1)
        (live_stream,) = operator.live.ask(lambda: list(operator.live.server.broker.streams.values()))
        assert live_stream.viewers == set()
        assert operator.figures().viewer_skips == 0


def test_a_skip_is_counted() -> None:
    with operated() as operator, rtmp_client(operator.port) as publisher, rtmp_client(operator.port) as viewer:
        publisher.publish("test")
        viewer.play("test")
        publisher.send([key_frame(0)])
        wait_until(lambda: operator.figures().sent_bytes > 2 * 3073 + 1000)
        broker = operator.live.server.broker
        (live_stream,) = operator.live.ask(lambda: list(broker.streams.values()))
        (view,) = live_stream.viewers
        operator.live.ask(lambda: live_stream.skip(view, broker.loop.now))
        assert operator.figures().viewer_skips == 1


class Watched:
    """A connection of one byte, which notes that it was looked at."""

    queue: ClassVar = SimpleNamespace(sent_bytes=0)
    plays: ClassVar[dict[int, Viewer]] = {}

    def __init__(self, looks: list[int], number: int) -> None:
        self._looks = looks
        self._number = number

    @property
    def received_bytes(self) -> int:
        self._looks.append(self._number)
        return 1


def test_a_walk_over_many_connections_is_cut_into_slices_with_pauses_between_them() -> None:
    looks: list[int] = []
    later: list[Callable[[], None]] = []
    pauses_s: list[float] = []

    def call_later(delay_s: float, callback: Callable[[], None]) -> None:
        pauses_s.append(delay_s)
        later.append(callback)

    broker = SimpleNamespace(
        connections={str(number): Watched(looks, number) for number in range(600)},
        streams={},
        loop=SimpleNamespace(call_later=call_later, busy_share=0.25, foreground_share=0.125),
        budget=SimpleNamespace(used_bytes=0, max_bytes=1),
        peers=SimpleNamespace(followed=SimpleNamespace(resumes=7)),
    )
    taken: list[Figures] = []
    flusher = SimpleNamespace(rounds=RoundTimes(), pacer=SimpleNamespace(grid_s=None))
    MetricsObserver(Meters()).take(cast("Broker", broker), cast("Flusher", flusher), taken.append)
    slices = [len(looks)]
    while later:
        assert taken == []
        later.pop()()
        slices.append(len(looks) - sum(slices))
    assert slices == [250, 250, 100]
    assert looks == list(range(600))
    assert pauses_s == [pytest.approx(0.002)] * 2
    told = [(each.received_bytes, each.busy_share, each.foreground_share, each.follower_resumes) for each in taken]
    assert told == [(600, 0.25, 0.125, 7)]


def test_connections_of_several_slices_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "_SLICE_CONNECTIONS", 2)
    with operated() as operator:
        sockets = [socket.create_connection((LOOPBACK, operator.port)) for _ in range(5)]
        for each in sockets:
            each.sendall(b"\x03")
        wait_until(lambda: (operator.figures().connections, operator.figures().received_bytes) == (5, 5))
        for each in sockets:
            each.close()


def test_what_is_held_back_for_an_address_is_counted() -> None:
    facts_quota, log_quota = (
        AddressQuota(QuotaLimits(per_s=0.0, burst=burst, exempts_loopback=False)) for burst in (1.0, 2.0)
    )
    meters = Meters()
    observer = MetricsObserver(meters, facts_quota=facts_quota, log_quota=log_quota)
    for quota in (facts_quota, log_quota):
        for _ in range(5):
            quota.admit("192.0.2.1:5000", 0.0)
    with live_server(meters, observer) as live:
        figures = Operator(live, observer).figures()
    assert (figures.facts_held_back, figures.log_lines_held_back) == (4, 3)
    assert (figures.recorder_backlog_bytes, figures.facts_written) == (None, None)
