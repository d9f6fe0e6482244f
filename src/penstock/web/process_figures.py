"""Memory, processor time and descriptors of all processes of a server, added up.

Owns which of Prometheus' figures of a process are sums. Processor time of processes that have ended stays in the sum,
as it was when it was last looked at.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import chain

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
