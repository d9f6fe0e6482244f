"""Memory, processor time and descriptors of all processes of a server, added up; and the first two of one process.

Owns which of Prometheus' figures of a process are sums. Processor time of processes that have ended stays in the sum,
as it was when it was last looked at. One process alone is looked at by a few fields of `/proc` (proc(5)), since its
descriptors, of which there may be thousands, take long to count.
"""

import os
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Final, NamedTuple

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_CPU_SECONDS = "process_cpu_seconds"
_STARTED_AT = "process_start_time_seconds"
_MEANINGS = {
    "process_virtual_memory_bytes": "Virtual memory of all processes",
    "process_resident_memory_bytes": "Resident memory of all processes; what they share is counted for each",
    _STARTED_AT: "When the first of them began, in seconds since 1970",
    _CPU_SECONDS: "User and system time of all processes",
    "process_open_fds": "Open descriptors of all processes",
    "process_max_fds": "Descriptors that all processes together may have",
}

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat, counted from behind the name, which may have spaces in it.
_USER_TIME: Final = 11
_SYSTEM_TIME: Final = 12
_STARTED: Final = 19
_RESIDENT: Final = 21

ProcessKey = tuple[int, float]
"""Pid and time of start: pids are given again."""


def collect_process(pid: int) -> list[Metric]:
    """What the system tells of a process; nothing if it is gone."""
    return list(ProcessCollector(pid=lambda: pid, registry=None).collect())


class ProcessesCollector(Collector):
    """Figures of several processes as if they were one."""

    def __init__(self, collect: Callable[[int], list[Metric]] = collect_process) -> None:
        self.pids: Collection[int] = ()
        self._collect = collect
        self._cpu_s: dict[ProcessKey, float] = {}
        self._past_cpu_s = 0.0

    def collect(self) -> Iterator[Metric]:
        """Each figure once."""
        processes = [values for pid in self.pids if (values := self._look_at(pid))]
        self._keep_cpu_time(processes)
        for name, meaning in _MEANINGS.items():
            found = [values[name] for _, values in processes if name in values]
            if name == _CPU_SECONDS:
                yield CounterMetricFamily(name, meaning, self._past_cpu_s + sum(self._cpu_s.values()))
            elif found:
                yield GaugeMetricFamily(name, meaning, min(found) if name == _STARTED_AT else sum(found))

    def _look_at(self, pid: int) -> tuple[ProcessKey, dict[str, float]] | None:
        samples = chain.from_iterable(metric.samples for metric in self._collect(pid))
        values = {sample.name.removesuffix("_total"): sample.value for sample in samples}
        return ((pid, values[_STARTED_AT]), values) if _STARTED_AT in values else None

    def _keep_cpu_time(self, processes: list[tuple[ProcessKey, dict[str, float]]]) -> None:
        seen = {key: values[_CPU_SECONDS] for key, values in processes}
        self._past_cpu_s += sum(cpu_s for key, cpu_s in self._cpu_s.items() if key not in seen)
        self._cpu_s = seen


class ProcessFigures(NamedTuple):
    """What the system tells of a process."""

    memory_bytes: int
    cpu_s: float
    started_at_us: int


def look_at_process(pid: int) -> ProcessFigures | None:
    """A process; None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read(4096).rpartition(b") ")[2].split()
        ticks = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
        started_at_us = _booted_at_s() * 1_000_000 + int(fields[_STARTED]) * 1_000_000 // _TICKS_PER_S
        return ProcessFigures(int(fields[_RESIDENT]) * _PAGE_BYTES, round(ticks / _TICKS_PER_S, 2), started_at_us)
    except (OSError, ValueError, IndexError):
        return None


def _booted_at_s() -> int:
    with open("/proc/stat", "rb") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(b"btime "))
