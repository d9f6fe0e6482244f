"""Figures in Prometheus' words."""

import os

from prometheus_client.parser import text_string_to_metric_families

from penstock.control.figures import ROUND_BOUNDS_S, Figures
from penstock.pipeline_figures import PipelineFigures
from penstock.web.live.figures import LiveFigures, StreamFigures
from penstock.web.metrics import Exposition, ServerFigures


def samples_of(text: bytes) -> dict[str, float]:
    """Samples by name, with their labels."""
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sample.labels.items()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def rendered(server: ServerFigures, pipeline: PipelineFigures | None = None) -> dict[str, float]:
    return samples_of(Exposition().render(server, pipeline))


def of_pipeline(samples: dict[str, float]) -> dict[str, float]:
    start = "penstock_pipeline_"
    return {name.removeprefix(start): value for name, value in samples.items() if name.startswith(start)}


def test_totals_have_no_labels() -> None:
    samples = rendered(
        ServerFigures(
            Figures(
                connections=2,
                sent_bytes=10,
                limits_hit={"connections": 3},
                flush_grid_s=0.05,
                recorder_backlog_bytes=5,
                recorder_dropped_messages=6,
            )
        )
    )
    expected = {
        "connections": 2,
        "publishers": 0,
        "sent_bytes_total": 10,
        "limits_hit_total limit=connections": 3,
        "flush_grid_seconds": 0.05,
        "recorder_backlog_bytes": 5,
        "recorder_dropped_messages_total": 6,
    }
    assert {name: samples[f"penstock_{name}"] for name in expected} == expected


def test_a_few_figures_are_told_for_each_worker() -> None:
    workers = {1: Figures(connections=5, viewers=3, publishers=1, busy_share=0.25), 2: Figures(busy_share=0.5)}
    samples = rendered(ServerFigures(Figures(), workers))
    assert {name: value for name, value in samples.items() if name.startswith("penstock_worker")} == {
        "penstock_worker_connections worker=1": 5,
        "penstock_worker_connections worker=2": 0,
        "penstock_worker_viewers worker=1": 3,
        "penstock_worker_viewers worker=2": 0,
        "penstock_worker_publishers worker=1": 1,
        "penstock_worker_publishers worker=2": 0,
        "penstock_worker_busy_share worker=1": 0.25,
        "penstock_worker_busy_share worker=2": 0.5,
    }


def test_parts_that_do_not_run_have_no_figures() -> None:
    samples = rendered(ServerFigures(Figures()))
    assert [name for name in samples if "recorder" in name or "facts" in name] == []
    assert samples["penstock_connections"] == 0


def test_buckets_are_cumulative() -> None:
    counts = tuple(range(1, len(ROUND_BOUNDS_S) + 2))
    samples = rendered(ServerFigures(Figures(round_counts=counts, round_sum_s=1.5)))
    assert samples["penstock_pump_round_seconds_bucket le=0.0001"] == 1
    assert samples["penstock_pump_round_seconds_bucket le=0.00012"] == 3
    assert samples["penstock_pump_round_seconds_count"] == sum(counts)
    assert samples["penstock_pump_round_seconds_sum"] == 1.5


def test_processes_are_told_of_by_their_pids() -> None:
    once = rendered(ServerFigures(Figures(), pids=(os.getpid(),)))
    assert once["process_resident_memory_bytes"] > 1_000_000
    assert once["process_cpu_seconds_total"] > 0


def test_what_the_pipeline_tells_of_itself_is_served_with_the_rest() -> None:
    samples = rendered(ServerFigures(Figures()), PipelineFigures(7, 1, 600, 3, 4.5, 12.25, 1794000000.5))
    assert of_pipeline(samples) == {
        "runs_total": 7,
        "failures_total": 1,
        "facts_total": 600,
        "quarantined_lines_total": 3,
        "run_seconds": 4.5,
        "lag_seconds": 12.25,
        "last_success_timestamp_seconds": 1794000000.5,
    }


def test_without_a_pipeline_its_figures_are_absent() -> None:
    assert of_pipeline(rendered(ServerFigures(Figures()))) == {}


def test_streams_have_figures_by_their_names() -> None:
    streams = [StreamFigures("live", "a", 3, 2_000_000, 100, 300), StreamFigures("", "other", 1, 5, 6, 7)]
    figures = LiveFigures(streams, {"av_drift": 1}, {"av_drift": 2, "ingest_stalled": 4})
    samples = samples_of(Exposition().render(ServerFigures(Figures(limits_hit={"access": 9})), None, figures))
    expected = {
        "stream_viewers app=live stream=a": 3,
        "stream_bitrate_bps app=live stream=a": 2_000_000,
        "stream_received_bytes_total app=live stream=a": 100,
        "stream_sent_bytes_total app=live stream=a": 300,
        "stream_viewers app= stream=other": 1,
        "incidents incident=av_drift": 1,
        "incidents_begun_total incident=ingest_stalled": 4,
        "access_refused_total": 9,
    }
    assert {name: samples[f"penstock_{name}"] for name in expected} == expected
