"""Figures of the whole server at a moment, and the same in Prometheus' words.

Owns what is counted for operators and the one snapshot in which all of it is taken. Counting happens on the loop and
costs next to nothing; the snapshot walks all connections there, a few at a time; rendering needs no loop and is done by
whoever was asked, in another thread.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.errors import ProtocolViolation
from penstock.pipeline_figures import PipelineFigures
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.flusher import Flusher
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.reaper import SLOW_VIEWER
from penstock.serve.streams.round_times import ROUND_BOUNDS_S
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.address_quota import AddressQuota
from penstock.serve.telemetry.facts_writer import FactsWriter
from penstock.serve.telemetry.meter import Meters

_SLICE_CONNECTIONS = 250
_SLICE_PAUSE_S = 0.002


class RecorderFigures(Protocol):
    """What a recorder tells of itself."""

    @property
    def backlog_bytes(self) -> int:
        """Not written yet."""

    @property
    def dropped_messages(self) -> int:
        """Given up since the disk was too slow."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The server at a moment. What belongs to a part that does not run is None."""

    connections: int
    publishers: int
    viewers: int
    streams: int
    received_bytes: int
    sent_bytes: int
    media_messages: int
    viewer_skips: int
    slow_viewers_closed: int
    protocol_violations: int
    limits_hit: Mapping[str, int]
    round_counts: tuple[int, ...]
    round_sum_s: float
    flush_grid_s: float
    log_bytes: int
    log_budget_bytes: int
    recorder_backlog_bytes: int | None = None
    recorder_dropped_messages: int | None = None
    facts_written: int | None = None
    facts_dropped: int | None = None
    facts_pending_bytes: int | None = None
    facts_deleted_files: int | None = None
    facts_held_back: int | None = None
    log_lines_held_back: int | None = None


class MetricsObserver(Observer):
    """Counts what no other part counts, and takes snapshots."""

    def __init__(
        self,
        meters: Meters,
        facts_writer: FactsWriter | None = None,
        recorder: RecorderFigures | None = None,
        *,
        facts_quota: AddressQuota | None = None,
        log_quota: AddressQuota | None = None,
    ) -> None:
        self._meters = meters
        self._facts_writer = facts_writer
        self._recorder = recorder
        self._facts_quota = facts_quota
        self._log_quota = log_quota
        self._viewer_skips = 0
        self._slow_viewers_closed = 0
        self._violations = 0
        self._limits_hit: Counter[str] = Counter()
        # Of connections and views that are over.
        self._received_bytes = 0
        self._sent_bytes = 0
        self._told_received_bytes = 0
        self._told_sent_bytes = 0

    def violation(self, connection: RtmpConnection, violation: ProtocolViolation) -> None:  # noqa: ARG002
        """A peer broke the protocol."""
        self._violations += 1

    def limit_hit(self, limit: str, detail: str) -> None:  # noqa: ARG002
        """Somebody was turned away."""
        self._limits_hit[limit] += 1

    def viewer_skipped(self, viewer: Viewer, skipped_bytes: int) -> None:  # noqa: ARG002
        """A viewer fell behind and lost some."""
        self._viewer_skips += 1

    def play_stopped(self, viewer: Viewer, reason: str) -> None:  # noqa: ARG002
        """A view is over."""
        self._sent_bytes += viewer.log_bytes

    def connection_closed(self, connection: RtmpConnection, reason: str) -> None:
        """A connection is gone."""
        self._received_bytes += connection.session.received_bytes
        self._sent_bytes += connection.queue.sent_bytes
        if reason.startswith(SLOW_VIEWER):
            self._slow_viewers_closed += 1

    def take(self, broker: Broker, flusher: Flusher, done: Callable[[Figures], None]) -> None:
        """Take a snapshot, on the loop's thread and in slices, and hand it over."""

        def walked(walk: _Walk) -> None:
            done(self._figures(broker, flusher, walk))

        _Walk(broker, self._received_bytes, self._sent_bytes, walked).go_on()

    def _figures(self, broker: Broker, flusher: Flusher, walk: "_Walk") -> Figures:
        # A view that ended while the walk was on its way may be missing; a counter must not go back for that.
        self._told_received_bytes = max(self._told_received_bytes, walk.received_bytes)
        self._told_sent_bytes = max(self._told_sent_bytes, walk.sent_bytes)
        live_streams = broker.streams.values()
        rounds, writer, recorder = flusher.rounds, self._facts_writer, self._recorder
        return Figures(
            connections=len(broker.connections),
            publishers=sum(live_stream.is_live for live_stream in live_streams),
            viewers=sum(len(live_stream.viewers) for live_stream in live_streams),
            streams=len(live_streams),
            received_bytes=self._told_received_bytes,
            sent_bytes=self._told_sent_bytes,
            media_messages=self._meters.messages,
            viewer_skips=self._viewer_skips,
            slow_viewers_closed=self._slow_viewers_closed,
            protocol_violations=self._violations,
            limits_hit=dict(self._limits_hit),
            round_counts=tuple(rounds.counts),
            round_sum_s=rounds.sum_s,
            flush_grid_s=flusher.pacer.grid_s or 0.0,
            log_bytes=broker.budget.used_bytes,
            log_budget_bytes=broker.budget.max_bytes,
            recorder_backlog_bytes=recorder.backlog_bytes if recorder else None,
            recorder_dropped_messages=recorder.dropped_messages if recorder else None,
            facts_written=writer.written_facts if writer else None,
            facts_dropped=writer.dropped_facts if writer else None,
            facts_pending_bytes=writer.pending_bytes if writer else None,
            facts_deleted_files=writer.deleted_files if writer else None,
            facts_held_back=self._facts_quota.held_back_total if self._facts_quota else None,
            log_lines_held_back=self._log_quota.held_back_total if self._log_quota else None,
        )


class _Walk:
    """Sums over all connections, a slice at a time."""

    def __init__(self, broker: Broker, received_bytes: int, sent_bytes: int, done: Callable[["_Walk"], None]) -> None:
        self.received_bytes = received_bytes
        self.sent_bytes = sent_bytes
        self._loop = broker.loop
        self._connections: Iterator[RtmpConnection] = iter(list(broker.connections.values()))
        self._done = done

    def go_on(self) -> None:
        """Look at the next few."""
        some = list(islice(self._connections, _SLICE_CONNECTIONS))
        for connection in some:
            # One that has closed meanwhile keeps its counts: they were not yet among those of the past.
            self.received_bytes += connection.session.received_bytes
            self.sent_bytes += connection.queue.sent_bytes + sum(play.log_bytes for play in connection.plays.values())
        if len(some) == _SLICE_CONNECTIONS:
            self._loop.call_later(_SLICE_PAUSE_S, self.go_on)
        else:
            self._done(self)


_GAUGES = {
    "connections": "Open connections",
    "publishers": "Streams that somebody publishes now",
    "viewers": "Viewers of all streams",
    "streams": "Streams, those that wait for their publisher to come back with them",
    "flush_grid_seconds": "The grid on which load has forced streams to be sent; 0 while each video frame is",
    "log_bytes": "Memory that the logs of all streams hold",
    "log_budget_bytes": "Memory that they may hold",
    "recorder_backlog_bytes": "What the recorder has yet to write",
    "facts_pending_bytes": "Facts that wait for the disk",
}
_COUNTERS = {
    "received_bytes": "Bytes received on RTMP connections",
    "sent_bytes": "Bytes sent on RTMP connections",
    "media_messages": "Audio, video and data messages of publishers",
    "viewer_skips": "Times that a viewer fell behind and skipped to a key frame",
    "slow_viewers_closed": "Viewers that were closed because they took nothing",
    "protocol_violations": "Connections that were closed because the peer broke RTMP",
    "recorder_dropped_messages": "Messages that are missing in recordings",
    "facts_written": "Facts written",
    "facts_dropped": "Facts lost because the disk stalled",
    "facts_deleted_files": "Landed files of facts that were deleted because there were too many bytes of them",
    "facts_held_back": "Connections, views and publications without facts because their address had too many",
    "log_lines_held_back": "Log lines left out because their address had too many",
}
_FIELDS = {"flush_grid_seconds": "flush_grid_s"}
# Of the pipeline: field, name behind penstock_pipeline_, meaning.
_PIPELINE_GAUGES = (
    ("lag_seconds", "lag_seconds", "Age of the newest fact in the tables when the last good run of the pipeline ended"),
    ("run_seconds", "run_seconds", "How long that run took"),
    ("succeeded_at", "last_success_timestamp_seconds", "When that run ended, in seconds since 1970"),
)
_PIPELINE_COUNTERS = (
    ("runs", "runs", "Runs of the pipeline that succeeded"),
    ("failures", "failures", "Runs of the pipeline that ended with an error"),
    ("facts", "facts", "Facts that the pipeline has ingested"),
    ("quarantined", "quarantined_lines", "Landed lines that the pipeline refused"),
)


class _FiguresCollector(Collector):
    def __init__(self) -> None:
        self.figures: Figures | None = None
        self.pipeline: PipelineFigures | None = None

    def collect(self) -> Iterator[Metric]:
        if self.figures is not None:
            yield from self._of_server(self.figures)
        if self.pipeline is not None:
            yield from self._of_pipeline(self.pipeline)

    def _of_pipeline(self, figures: PipelineFigures) -> Iterator[Metric]:
        for field, name, text in _PIPELINE_GAUGES:
            if (value := getattr(figures, field)) is not None:
                yield GaugeMetricFamily(f"penstock_pipeline_{name}", text, value)
        for field, name, text in _PIPELINE_COUNTERS:
            yield CounterMetricFamily(f"penstock_pipeline_{name}", text, getattr(figures, field))

    def _of_server(self, figures: Figures) -> Iterator[Metric]:
        for name, text in _GAUGES.items():
            if (value := getattr(figures, _FIELDS.get(name, name))) is not None:
                yield GaugeMetricFamily(f"penstock_{name}", text, value)
        for name, text in _COUNTERS.items():
            if (value := getattr(figures, name)) is not None:
                yield CounterMetricFamily(f"penstock_{name}", text, value)
        limits = CounterMetricFamily("penstock_limits_hit", "Times that somebody was turned away", labels=["limit"])
        for limit, hits in figures.limits_hit.items():
            limits.add_metric([limit], hits)
        yield limits
        bounds = [*(f"{bound:g}" for bound in ROUND_BOUNDS_S), "+Inf"]
        buckets = list(zip(bounds, accumulate(figures.round_counts), strict=True))
        yield HistogramMetricFamily(
            "penstock_pump_round_seconds",
            "How long rounds of sending took, from what woke them to their end",
            buckets,
            figures.round_sum_s,
        )


class Exposition:
    """Renders figures as text, those of this process and of the pipeline with them. Not for two threads at once."""

    def __init__(self) -> None:
        self._collector = _FiguresCollector()
        self._registry = CollectorRegistry()
        self._registry.register(self._collector)
        ProcessCollector(registry=self._registry)

    def render(self, figures: Figures, pipeline: PipelineFigures | None = None) -> bytes:
        """The text that Prometheus reads. Without figures of a pipeline none are in it."""
        self._collector.figures = figures
        self._collector.pipeline = pipeline
        return generate_latest(self._registry)
