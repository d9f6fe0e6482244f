"""Several processes as if they were one."""

import os

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.web.process_figures import ProcessesCollector, collect_process


class Machine:
    """Processes by pid: when they began, their memory and processor time."""

    def __init__(self) -> None:
        self.processes: dict[int, tuple[float, float, float]] = {}

    def collect(self, pid: int) -> list[Metric]:
        if pid not in self.processes:
            return []
        started_at, memory, cpu_s = self.processes[pid]
        return [
            GaugeMetricFamily("process_start_time_seconds", "", started_at),
            GaugeMetricFamily("process_resident_memory_bytes", "", memory),
            CounterMetricFamily("process_cpu_seconds_total", "", cpu_s),
        ]


def values(collector: ProcessesCollector) -> dict[str, float]:
    return {sample.name: sample.value for metric in collector.collect() for sample in metric.samples}


def test_memory_and_time_are_sums_and_the_start_is_the_first() -> None:
    machine = Machine()
    machine.processes = {5: (1000.0, 10.0, 1.5), 6: (900.0, 20.0, 2.0)}
    collector = ProcessesCollector(machine.collect)
    collector.pids = (5, 6)
    assert values(collector) == {
        "process_start_time_seconds": 900.0,
        "process_resident_memory_bytes": 30.0,
        "process_cpu_seconds_total": 3.5,
    }


def test_time_of_a_process_that_has_ended_stays_in_the_sum() -> None:
    machine = Machine()
    machine.processes = {5: (1000.0, 10.0, 1.5), 6: (900.0, 20.0, 2.0)}
    collector = ProcessesCollector(machine.collect)
    collector.pids = (5, 6)
    values(collector)
    del machine.processes[5]
    assert values(collector)["process_cpu_seconds_total"] == 3.5
    # The number is given again, to a process that has used nothing yet.
    machine.processes[5] = (2000.0, 10.0, 0.25)
    assert values(collector)["process_cpu_seconds_total"] == 3.75
    assert values(collector)["process_cpu_seconds_total"] == 3.75


def test_this_process_is_found() -> None:
    names = {metric.name for metric in collect_process(os.getpid())}
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"} <= names


def test_a_process_that_is_gone_costs_nothing() -> None:
    collector = ProcessesCollector()
    collector.pids = (0x7FFFFFFF,)
    assert values(collector) == {"process_cpu_seconds_total": 0.0}
