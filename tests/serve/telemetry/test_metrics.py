"""Figures of a real server, as Prometheus reads them over HTTP."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.pipeline_figures import FILE_NAME, PipelineFigures
from penstock.relay.log import LogLimits
from penstock.serve.http import routes as http_routes
from penstock.serve.http.routes import OperatorRoutes
from penstock.serve.http.server import HttpServer
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.flusher import Flusher
from penstock.serve.streams.round_times import ROUND_BOUNDS_S, RoundTimes
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry import metrics as metrics_module
from penstock.serve.telemetry.address_quota import AddressQuota, QuotaLimits
from penstock.serve.telemetry.facts_writer import FactsWriter
from penstock.serve.telemetry.meter import Meters
from penstock.serve.telemetry.metrics import Exposition, Figures, MetricsObserver
from tests.serve.live_server import LiveServer, inter_frame, key_frame, live_server, wait_until
from tests.support.rtmp_driver import LOOPBACK, rtmp_client

NOTHING = Figures(
    connections=0,
    publishers=0,
    viewers=0,
    streams=0,
    received_bytes=0,
    sent_bytes=0,
    media_messages=0,
    viewer_skips=0,
    slow_viewers_closed=0,
    protocol_violations=0,
    limits_hit={},
    round_counts=(0,) * (len(ROUND_BOUNDS_S) + 1),
    round_sum_s=0.0,
    flush_grid_s=0.0,
    log_bytes=0,
    log_budget_bytes=0,
)


class Recorder:
    backlog_bytes = 5
    dropped_messages = 6


class Operator:
    """Someone who asks a live server over HTTP."""

    def __init__(self, live: LiveServer, http_port: int, observer: MetricsObserver) -> None:
        self.live = live
        self.port = live.port
        self._url = f"http://{LOOPBACK}:{http_port}"
        self._observer = observer

    def ask(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self._url + path, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def figures(self) -> Figures:
        taken: list[Figures] = []
        server = self.live.server
        server.reactor.call_from_thread(lambda: self._observer.take(server.broker, server.flusher, taken.append))
        wait_until(lambda: taken)
        return taken[0]


@contextmanager
def operated(settings: ServerSettings | None = None, data_dir: Path | None = None) -> Iterator[Operator]:
    meters = Meters()
    writer = FactsWriter(Path("never opened"), "edge-1", "b0a7")
    observer = MetricsObserver(meters, writer, Recorder())
    with live_server(meters, observer, settings=settings) as live:
        server = live.server
        http = HttpServer(OperatorRoutes(server.reactor, server.broker, server.flusher, observer, data_dir).routes())
        port = http.start(LOOPBACK, 0)
        try:
            yield Operator(live, port, observer)
        finally:
            http.stop()


def parsed(text: str) -> dict[str, float]:
    """Samples by name, with their labels."""
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sample.labels.items()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_clients_do_shows_in_the_figures() -> None:
    with operated() as operator, rtmp_client(operator.port) as publisher, rtmp_client(operator.port) as viewer:
        publisher.publish("test")
        viewer.play("test")
        publisher.send([key_frame(0), inter_frame(40)])
        wait_until(lambda: operator.figures().media_messages == 2)
        status, text = operator.ask("/metrics")
    samples = parsed(text)
    assert status == 200
    expected = {"connections": 2, "publishers": 1, "viewers": 1, "streams": 1, "media_messages_total": 2}
    assert {name: samples[f"penstock_{name}"] for name in expected} == expected
    assert samples["penstock_received_bytes_total"] > 2 * 3073 + 2000
    assert samples["penstock_sent_bytes_total"] > 2 * 3073 + 2000
    assert 2000 < samples["penstock_log_bytes"] < samples["penstock_log_budget_bytes"] == 2**30
    assert samples["penstock_flush_grid_seconds"] == 0
    assert samples["penstock_pump_round_seconds_bucket le=+Inf"] == samples["penstock_pump_round_seconds_count"] >= 1
    assert samples["penstock_pump_round_seconds_sum"] > 0
    assert (samples["penstock_recorder_backlog_bytes"], samples["penstock_recorder_dropped_messages_total"]) == (5, 6)
    assert (samples["penstock_facts_written_total"], samples["penstock_facts_dropped_total"]) == (0, 0)
    assert samples["process_resident_memory_bytes"] > 1_000_000


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
        samples = parsed(operator.ask("/metrics")[1])
    assert samples["penstock_protocol_violations_total"] == 1
    assert samples["penstock_limits_hit_total limit=connections"] == 1


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
    def session(self) -> SimpleNamespace:
        self._looks.append(self._number)
        return SimpleNamespace(received_bytes=1)


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
        loop=SimpleNamespace(call_later=call_later),
        budget=SimpleNamespace(used_bytes=0, max_bytes=1),
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
    assert [figures.received_bytes for figures in taken] == [600]


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
        samples = parsed(Exposition().render(Operator(live, 0, observer).figures()).decode())
    assert samples["penstock_facts_held_back_total"] == 4
    assert samples["penstock_log_lines_held_back_total"] == 3


def test_figures_are_taken_once_a_second_however_often_they_are_asked_for() -> None:
    with operated() as operator:
        first = operator.ask("/metrics")
        with socket.create_connection((LOOPBACK, operator.port)):
            wait_until(lambda: operator.figures().connections == 1)
            assert operator.ask("/metrics") == first
            wait_until(lambda: parsed(operator.ask("/metrics")[1])["penstock_connections"] == 1)


def test_a_server_that_serves_is_alive_and_ready() -> None:
    with operated() as operator:
        assert operator.ask("/healthz") == (200, "ok\n")
        assert operator.ask("/readyz") == (200, "ready\n")


def test_a_server_that_shuts_down_is_alive_but_not_ready() -> None:
    with operated() as operator:
        operator.live.ask(lambda: setattr(operator.live.server.broker, "is_closing", True))
        assert operator.ask("/readyz") == (503, "shutting down\n")
        assert operator.ask("/healthz") == (200, "ok\n")
        operator.live.ask(lambda: setattr(operator.live.server.broker, "is_closing", False))


def test_a_loop_that_hangs_is_neither_alive_nor_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_routes, "_LOOP_ANSWERS_WITHIN_S", 0.05)
    with operated() as operator:
        may_go_on = threading.Event()

        def hang() -> None:
            may_go_on.wait()

        operator.live.server.reactor.call_from_thread(hang)
        answers = [operator.ask(path) for path in ("/healthz", "/readyz", "/metrics")]
        may_go_on.set()
        assert operator.ask("/healthz") == (200, "ok\n")
    assert answers == [(503, "the media loop does not answer\n")] * 3


def test_parts_that_do_not_run_have_no_figures() -> None:
    samples = parsed(Exposition().render(NOTHING).decode())
    assert [name for name in samples if "recorder" in name or "facts" in name] == []
    assert samples["penstock_connections"] == 0


def test_buckets_are_cumulative() -> None:
    counts = tuple(range(1, len(ROUND_BOUNDS_S) + 2))
    figures = replace(NOTHING, round_counts=counts, round_sum_s=1.5)
    samples = parsed(Exposition().render(figures).decode())
    assert samples["penstock_pump_round_seconds_bucket le=0.0001"] == 1
    assert samples["penstock_pump_round_seconds_bucket le=0.00012"] == 3
    assert samples["penstock_pump_round_seconds_count"] == sum(counts)
    assert samples["penstock_pump_round_seconds_sum"] == 1.5


def of_pipeline(samples: dict[str, float]) -> dict[str, float]:
    start = "penstock_pipeline_"
    return {name.removeprefix(start): value for name, value in samples.items() if name.startswith(start)}


def test_what_the_pipeline_tells_of_itself_is_served_with_the_rest(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(PipelineFigures(7, 1, 600, 3, 4.5, 12.25, 1794000000.5).to_json())
    with operated(data_dir=tmp_path) as operator:
        samples = parsed(operator.ask("/metrics")[1])
    assert of_pipeline(samples) == {
        "runs_total": 7,
        "failures_total": 1,
        "facts_total": 600,
        "quarantined_lines_total": 3,
        "run_seconds": 4.5,
        "lag_seconds": 12.25,
        "last_success_timestamp_seconds": 1794000000.5,
    }
    assert samples["penstock_connections"] == 0


@pytest.mark.parametrize("data", [None, b"", b'{"runs": "many"}', b" " * 100_000 + b"{}"])
def test_without_a_file_of_the_pipeline_its_figures_are_absent(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / FILE_NAME).write_bytes(data)
    with operated(data_dir=tmp_path) as operator:
        status, text = operator.ask("/metrics")
    assert (status, of_pipeline(parsed(text))) == (200, {})


def test_a_disk_that_hangs_costs_the_figures_of_the_pipeline_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(http_routes, "_DISK_ANSWERS_WITHIN_S", 0.05)
    monkeypatch.setattr(http_routes, "read_pipeline_figures", lambda _: is_over.wait(10))
    with operated(data_dir=tmp_path) as operator:
        status, text = operator.ask("/metrics")
        is_over.set()
    assert (status, of_pipeline(parsed(text))) == (200, {})
