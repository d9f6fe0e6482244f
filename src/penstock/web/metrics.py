"""Figures of the whole server in Prometheus' words.

Owns the names and meanings of metrics: totals without labels, a few for each worker and each stream, and those of the
pipeline beside the server. Counting is done elsewhere.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.control.figures import ROUND_BOUNDS_S, Figures
from penstock.pipeline_figures import PipelineFigures
from penstock.web.live.figures import LiveFigures
from penstock.web.process_figures import ProcessesCollector


class ServerFigures(NamedTuple):
    """All that is told of a server at a moment."""

    total: Figures
    workers: Mapping[int, Figures] = {}
    """By their numbers."""
    pids: Collection[int] = ()
    """Of supervisor, workers and web."""


_GAUGES = {
    "connections": "Open connections",
    "publishers": "Streams that somebody publishes now",
    "viewers": "Viewers of all streams",
    "streams": "Streams, those that wait for their publisher to come back with them",
    "pulls": "Streams that are fetched from other servers, or asked for there",
    "flush_grid_seconds": "The grid on which load has forced streams to be sent; 0 while each video frame is",
    "log_bytes": "Memory that the logs of all streams hold",
    "log_budget_bytes": "Memory that they may hold",
    "pushes_live": "Streams that other servers are sent",
    "pushes_failing": "Streams that other servers should be sent, and are not",
    "recorder_backlog_bytes": "What the recorder has yet to write",
    "facts_pending_bytes": "Facts that wait for the disk",
}
_COUNTERS = {
    "received_bytes": "Bytes received on RTMP connections, those of pulls with them",
    "sent_bytes": "Bytes sent on RTMP connections",
    "media_messages": "Audio, video and data messages of publishers",
    "viewer_skips": "Times that a viewer fell behind and skipped to a key frame",
    "slow_viewers_closed": "Viewers that were closed because they took nothing",
    "follower_resumes": "Times that a worker which follows another's streams had to go on at a newer place",
    "protocol_violations": "Connections that were closed because the peer broke RTMP",
    "push_failures": "Times that another server could not be reached, refused a stream or was lost",
    "push_sent_bytes": "Bytes sent to other servers",
    "pull_misses": "Pulls that came to nothing, since the origin did not have the stream or was not there",
    "pull_losses": "Connections of pulls that were lost or could not be opened",
    "recorder_dropped_messages": "Messages that are missing in recordings",
    "facts_written": "Facts written",
    "facts_dropped": "Facts lost because the disk stalled",
    "facts_deleted_files": "Landed files of facts that were deleted because there were too many bytes of them",
    "facts_held_back": "Connections, views and publications without facts because their address had too many",
    "log_lines_held_back": "Log lines left out because their address had too many",
}
_FIELDS = {"flush_grid_seconds": "flush_grid_s"}
_WORKER_GAUGES = {
    "connections": "Open connections of a worker",
    "viewers": "Viewers at a worker",
    "publishers": "Publishers at a worker",
    "busy_share": "How much of its time the loop of a worker does not wait",
}
_STREAM_GAUGES = {
    "viewers": "Viewers of a stream",
    "bitrate_bps": "What its publisher sends, in bits per second",
}
_STREAM_COUNTERS = {
    "received_bytes": "Bytes of media that the publication has brought",
    "sent_bytes": "Bytes of media sent to viewers of a stream",
}
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


_ACCESS = "access"
"""The limit that those hit who may not."""


class _FiguresCollector(Collector):
    def __init__(self) -> None:
        self.server = ServerFigures(Figures())
        self.pipeline: PipelineFigures | None = None
        self.live = LiveFigures([], {}, {})
        self.dropped_beacons: Mapping[str, int] = {}

    def collect(self) -> Iterator[Metric]:
        yield from self._of_server(self.server.total)
        yield self._of_beacons(self.server.total)
        yield from self._of_streams(self.live)
        yield from self._of_workers(self.server.workers)
        if self.pipeline is not None:
            yield from self._of_pipeline(self.pipeline)

    def _of_beacons(self, figures: Figures) -> Metric:
        beacons = CounterMetricFamily("penstock_beacons", "What players told of their views", labels=["result"])
        dropped = self.dropped_beacons
        beacons.add_metric(["told"], figures.beacons_told)
        beacons.add_metric(["unknown"], figures.beacons_unknown + dropped.get("unknown", 0))
        beacons.add_metric(["limited"], figures.beacons_limited + dropped.get("limited", 0))
        beacons.add_metric(["malformed"], dropped.get("malformed", 0))
        return beacons

    def _of_streams(self, live: LiveFigures) -> Iterator[Metric]:
        for name, text in _STREAM_GAUGES.items():
            gauge = GaugeMetricFamily(f"penstock_stream_{name}", text, labels=["app", "stream"])
            for stream in live.streams:
                gauge.add_metric([stream.app, stream.stream], getattr(stream, name))
            yield gauge
        for name, text in _STREAM_COUNTERS.items():
            counter = CounterMetricFamily(f"penstock_stream_{name}", text, labels=["app", "stream"])
            for stream in live.streams:
                counter.add_metric([stream.app, stream.stream], getattr(stream, name))
            yield counter
        lasting = GaugeMetricFamily("penstock_incidents", "Incidents of streams that last", labels=["incident"])
        for kind, number in live.open_incidents.items():
            lasting.add_metric([kind], number)
        yield lasting
        begun = CounterMetricFamily("penstock_incidents_begun", "Incidents of streams that began", labels=["incident"])
        for kind, number in live.incidents.items():
            begun.add_metric([kind], number)
        yield begun

    def _of_workers(self, workers: Mapping[int, Figures]) -> Iterator[Metric]:
        for name, text in _WORKER_GAUGES.items():
            gauge = GaugeMetricFamily(f"penstock_worker_{name}", text, labels=["worker"])
            for worker, figures in workers.items():
                gauge.add_metric([str(worker)], getattr(figures, name))
            yield gauge

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
        refused = figures.limits_hit.get(_ACCESS, 0)
        yield CounterMetricFamily("penstock_access_refused", "Times that somebody was not let in by the rules", refused)
        bounds = [*(f"{bound:g}" for bound in ROUND_BOUNDS_S), "+Inf"]
        buckets = list(zip(bounds, accumulate(figures.round_counts), strict=True))
        yield HistogramMetricFamily(
            "penstock_pump_round_seconds",
            "How long rounds of sending took, from what woke them to their end",
            buckets,
            figures.round_sum_s,
        )


class Exposition:
    """Renders figures as text."""

    def __init__(self) -> None:
        self._collector = _FiguresCollector()
        self._processes = ProcessesCollector()
        self._registry = CollectorRegistry()
        self._registry.register(self._collector)
        self._registry.register(self._processes)

    def render(
        self,
        server: ServerFigures,
        pipeline: PipelineFigures | None = None,
        live: LiveFigures | None = None,
        dropped_beacons: Mapping[str, int] | None = None,
    ) -> bytes:
        """The text that Prometheus reads. Without figures of a pipeline none are in it."""
        self._collector.server = server
        self._collector.live = live or LiveFigures([], {}, {})
        self._collector.pipeline = pipeline
        self._collector.dropped_beacons = dropped_beacons or {}
        self._processes.pids = server.pids
        return generate_latest(self._registry)
