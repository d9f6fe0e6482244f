"""One measured run: a fresh server, or the floor, under one scenario's load.

Owns the order of things (server, publishers, viewers, window) and the arithmetic from counts to figures. CPU is read
when the generator opens and closes its window, memory in the middle of it.
"""

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bench.load import Load, Result, load
from bench.scenarios import AUDIO_PER_S, FPS, MESSAGES_PER_S, Scenario
from bench.servers import Contestant, RunningServer, pump_p99_ms, pump_rounds, pump_rounds_per_s, serving
from bench.usage import Memory, core_s, cpu_s, memory

READY_DEADLINE_S = 60.0
MAX_GENERATOR_SHARE = 0.7
MIN_DELIVERED = 0.95


@dataclass(frozen=True, slots=True)
class Cores:
    """Where the two sides run; None is anywhere."""

    server: int | None
    generator: int | None

    @classmethod
    def apart(cls) -> "Cores":
        """Two different cores, if this process may use two."""
        allowed = sorted(os.sched_getaffinity(0))
        return cls(allowed[0], allowed[1]) if len(allowed) > 1 else cls(None, None)


@dataclass(frozen=True, slots=True)
class Figures:
    """One row of one round. What a scenario does not measure is None."""

    scenario: str
    row: str
    server_cpu_share: float
    cost: float | None
    """CPU seconds per viewer-minute, or µs per published message where each stream has one viewer or none."""
    generator_share: float
    """CPU of all generators as a share of their core."""
    p50_ms: float | None = None
    p99_ms: float | None = None
    first_key_p50_ms: float | None = None
    first_key_p99_ms: float | None = None
    delivered: float | None = None
    """Messages that steady viewers got, as a share of those that were due."""
    gaps: int | None = None
    slow_gaps: int | None = None
    slow_resumed_off_key: int | None = None
    """How often a slow viewer went on after a gap with a frame that it cannot decode."""
    connections: int = 0
    memory: Memory | None = None
    """Growth since the server stood idle."""
    idle_pss_bytes: int | None = None
    """Of all processes of the server, before anybody connected."""
    busiest_worker_share: float | None = None
    """CPU of the worker that took most, as a share of a core."""
    pump_p99_ms: float | None = None
    rounds_per_s: float | None = None
    """Rounds of sending of a worker, the mean over workers: with one stream, how often each viewer is sent to."""
    others_share: float = 0.0
    """How much of the server's core others took: figures are worth little then, as late rounds are fewer."""
    faults: tuple[str, ...] = ()
    """Why the figures must not be used."""
    notes: tuple[str, ...] = ()


def measure(scenario: Scenario, contestant: Contestant, cores: Cores, seconds: float) -> Figures:
    """Run one scenario against one contestant."""
    if contestant.program == "floor":
        return _measure_floor(scenario, contestant, cores, seconds)
    with ExitStack() as stack:
        server = stack.enter_context(serving(contestant, cores.server))
        memory_before = memory(server.pid)
        window = {"port": server.port, "seconds": seconds}
        if scenario.idle:
            watched = stack.enter_context(
                load("idle", window | {"connections": scenario.idle}, cores.generator),
            )
            return _watch(scenario, contestant, server, watched, cores, memory_before=memory_before, seconds=seconds)
        media = _media(scenario)
        if not scenario.viewers:
            watched = stack.enter_context(load("publish", window | media, cores.generator))
            return _watch(scenario, contestant, server, watched, cores, memory_before=memory_before, seconds=seconds)
        publishers = stack.enter_context(load("publish", window | media | {"seconds": 0}, cores.generator))
        publishers.wait_for("ready", READY_DEADLINE_S)
        viewers = {"connections": scenario.viewers} | scenario.options
        watched = stack.enter_context(load("play", window | media | viewers, cores.generator))
        return _watch(
            scenario,
            contestant,
            server,
            watched,
            cores,
            memory_before=memory_before,
            seconds=seconds,
            publishers=publishers,
        )


def _media(scenario: Scenario) -> dict[str, object]:
    shape = {"streams": scenario.streams, "video_bps": scenario.video_bps, "fps": FPS, "audio_per_s": AUDIO_PER_S}
    return shape | scenario.media


def _watch(
    scenario: Scenario,
    contestant: Contestant,
    server: RunningServer,
    watched: Load,
    cores: Cores,
    *,
    memory_before: Memory,
    seconds: float,
    publishers: Load | None = None,
) -> Figures:
    watched.wait_for("window_start", READY_DEADLINE_S)
    rounds_before = pump_rounds(server.metrics_url)
    workers_before_s = {pid: cpu_s(pid) for pid in server.worker_pids}
    server_before_s, publishers_before_s = cpu_s(server.pid), _own_cpu_s(publishers)
    core_before_s = _core_s(cores)
    time.sleep(seconds / 2)
    memory_growth = memory(server.pid) - memory_before
    watched.wait_for("window_end", seconds + READY_DEADLINE_S)
    server_s, publishers_s = cpu_s(server.pid) - server_before_s, _own_cpu_s(publishers) - publishers_before_s
    workers_s = [cpu_s(pid) - before_s for pid, before_s in workers_before_s.items()]
    others_s = _core_s(cores) - core_before_s - server_s
    rounds_after = pump_rounds(server.metrics_url)
    result = watched.result()
    published = None if publishers is None else publishers.stop()
    window_s, generators_s = float(result["window_s"]), float(result["cpu_s"]) + publishers_s
    faults, notes = _faults(result, published, generators_s / window_s)
    return Figures(
        scenario=scenario.name,
        row=contestant.name,
        server_cpu_share=server_s / window_s,
        cost=_cost(scenario, server_s, window_s),
        generator_share=generators_s / window_s,
        connections=int(result["connections"]) + (scenario.streams if publishers else 0),
        memory=memory_growth,
        idle_pss_bytes=memory_before.pss_bytes + memory_before.memfd_bytes if scenario.idle else None,
        busiest_worker_share=max(workers_s) / window_s if workers_s else None,
        pump_p99_ms=pump_p99_ms(rounds_before, rounds_after),
        rounds_per_s=pump_rounds_per_s(rounds_before, rounds_after, window_s, contestant.workers),
        others_share=max(0.0, others_s / window_s),
        faults=faults,
        notes=notes,
        **_viewing(scenario, result),
    )


def _core_s(cores: Cores) -> float:
    return 0.0 if cores.server is None else core_s(cores.server)


def _own_cpu_s(publishers: Load | None) -> float:
    return 0.0 if publishers is None else cpu_s(publishers.pid)


def _measure_floor(scenario: Scenario, contestant: Contestant, cores: Cores, seconds: float) -> Figures:
    options = {"connections": scenario.viewers, "seconds": seconds, "flush": contestant.flush, "by": contestant.by}
    if cores.server is not None and cores.generator is not None:
        options |= {"writer_cpu": cores.server, "reader_cpu": cores.generator}
    with load("floor", _media(scenario) | options) as floor:
        floor.wait_for("window_end", seconds + READY_DEADLINE_S)
        result = floor.result()
    reader: Result = result["reader"]
    generator_share = float(reader["cpu_s"]) / float(reader["window_s"])
    # The writer ends the run by closing, which is no loss.
    faults, notes = _faults(reader | {"dropped": 0}, None, generator_share)
    return Figures(
        scenario=scenario.name,
        row=contestant.name,
        server_cpu_share=float(result["cpu_s"]) / float(result["window_s"]),
        cost=_cost(scenario, float(result["cpu_s"]), float(result["window_s"])),
        generator_share=generator_share,
        connections=scenario.viewers,
        faults=faults,
        notes=notes,
        **_viewing(scenario, reader),
    )


def _cost(scenario: Scenario, server_s: float, window_s: float) -> float | None:
    if scenario.streams > 1:
        return server_s * 1e6 / (scenario.streams * MESSAGES_PER_S * window_s)
    return server_s / (scenario.viewers * window_s / 60) if scenario.viewers else None


def _viewing(scenario: Scenario, result: Result) -> dict[str, Any]:
    """The figures of viewers, as arguments of `Figures`."""
    if "steady" not in result:
        return {}
    steady, slow, first_key = result["steady"], result["slow"], result["first_key_frame"]
    due = MESSAGES_PER_S * result["window_s"] * steady["viewers"]
    figures = {
        "p50_ms": steady["latency"].get("p50_ms"),
        "p99_ms": steady["latency"].get("p99_ms"),
        "first_key_p50_ms": first_key.get("p50_ms"),
        "first_key_p99_ms": first_key.get("p99_ms"),
        "delivered": steady["messages"] / due if due else None,
        "gaps": steady["gaps"],
    }
    if "slow_share" in scenario.options:
        figures |= {"slow_gaps": slow["gaps"], "slow_resumed_off_key": slow["resumed_off_key"]}
    return figures


def _faults(
    result: Result, published: Result | None, generator_share: float
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What makes figures worthless, and what a reader of them must know."""
    faults, notes = [], []
    if generator_share > MAX_GENERATOR_SHARE:
        faults.append(f"generator at {generator_share:.0%} of its core")
    if result["window_s"] == 0 or result["live_at_start"] == 0:
        faults.append("nobody was served")
    wrong = {name: result.get(name, 0) for name in ("corrupt_messages", "protocol_errors")}
    lost = {name: result[name] + (published[name] if published else 0) for name in ("failed", "dropped")}
    faults += [f"{times} {name.replace('_', ' ')}" for name, times in wrong.items() if times]
    notes += [f"{times} {name}" for name, times in lost.items() if times]
    if steady := result.get("steady"):
        due = MESSAGES_PER_S * result["window_s"] * steady["viewers"]
        if steady["messages"] < MIN_DELIVERED * due or steady["gaps"]:
            notes.append("saturated")
        notes += [f"{steady[name]} {name}" for name in ("duplicates", "reordered") if steady[name]]
    return tuple(faults), tuple(notes)
