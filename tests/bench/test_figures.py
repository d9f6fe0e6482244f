"""The benchmark's arithmetic: ratios within rounds, what makes a result worthless, CPU and memory from /proc."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.live_report import ratio, table
from bench.run import Cores, Figures
from bench.scenarios import SCENARIOS
from bench.servers import CONTESTANTS, Contestant, command_of, pump_p99_ms, pump_rounds_per_s
from bench.usage import command_line, core_s, cpu_s, descriptors, memory, waited_s, with_descendants

from bench import live, run, servers

PLAYED: dict[str, Any] = {
    "window_s": 10.0,
    "live_at_start": 2,
    "failed": 0,
    "dropped": 0,
    "corrupt_messages": 0,
    "protocol_errors": 0,
    "steady": {"viewers": 2, "messages": 1460, "gaps": 0, "duplicates": 0, "reordered": 0},
}


def figures(row: str, cost: float, **more: Any) -> Figures:
    return Figures(scenario="fanout-200", row=row, server_cpu_share=0.1, cost=cost, generator_share=0.2, **more)


def test_a_ratio_is_taken_within_each_round() -> None:
    rounds = [
        {"nginx": figures("nginx", 2.0), "penstock": figures("penstock", 1.0)},
        {"nginx": figures("nginx", 8.0), "penstock": figures("penstock", 2.0)},
        {"nginx": figures("nginx", 1.0)},
    ]
    assert ratio(rounds, "penstock", "nginx") == 0.375
    assert ratio(rounds, "nginx", "nginx") is None
    assert ratio(rounds, "penstock", "floor frame") is None


def test_a_table_has_the_rows_that_ran_and_the_columns_that_say_something() -> None:
    rounds = [
        {
            "nginx": figures("nginx", 0.04, p50_ms=2.0, notes=("3 dropped",)),
            "floor message": figures("floor message", 0.02, faults=("generator at 81% of its core",)),
        }
    ]
    lines = table(SCENARIOS["fanout-200"], rounds).splitlines()
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]] == [
        ["row", "CPU-s/viewer-min", "to nginx", "to floor", "server CPU %", "p50 ms", "generator %", "remarks"],
        ["-" * (len(cell)) for cell in lines[3].split("|")[1:-1]],
        ["nginx", "0.0400", "", "2.00", "10.0", "2.0", "20", "3 dropped"],
        ["floor message", "0.0200", "0.50", "", "10.0", "", "20", "INVALID: generator at 81% of its core"],
    ]


def test_two_workers_are_compared_with_one_of_the_same_round() -> None:
    one = figures("penstock", 1.0, busiest_worker_share=0.2, p50_ms=5.0)
    two = figures("penstock 2 workers", 1.05, busiest_worker_share=0.11, p50_ms=6.5)
    lines = table(SCENARIOS["fanout-500"], [{"penstock": one, "penstock 2 workers": two}]).splitlines()
    head, _, first, second = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:])
    of_one, of_two = dict(zip(head, first, strict=True)), dict(zip(head, second, strict=True))
    assert (of_one["to one worker"], of_one["busiest worker %"], of_one["to the one"]) == ("", "20.0", "")
    assert (of_two["to one worker"], of_two["busiest worker %"], of_two["to the one"]) == ("1.05", "11.0", "0.55")
    assert of_two["more than one worker"] == "1.5"


def test_a_round_in_which_others_had_the_core_is_left_out_where_there_is_a_better_one() -> None:
    disturbed = {"nginx": figures("nginx", 1.0), "penstock": figures("penstock", 9.0, others_share=0.8)}
    quiet = {"nginx": figures("nginx", 1.0), "penstock": figures("penstock", 0.5, others_share=0.05)}
    assert ratio([disturbed, quiet, disturbed], "penstock", "nginx") == 0.5
    assert ratio([disturbed], "penstock", "nginx") == 9.0
    text = table(SCENARIOS["fanout-200"], [disturbed, quiet, disturbed])
    assert "2 rounds left out, as others had its core" in text
    assert "others had its core for 80% of the time" in table(SCENARIOS["fanout-200"], [disturbed])


@pytest.mark.parametrize(
    ("change", "share", "faults", "notes"),
    [
        ({}, 0.69, (), ()),
        ({}, 0.71, ("generator at 71% of its core",), ()),
        ({"corrupt_messages": 2}, 0.1, ("2 corrupt messages",), ()),
        ({"protocol_errors": 1}, 0.1, ("1 protocol errors",), ()),
        ({"live_at_start": 0}, 0.1, ("nobody was served",), ()),
        ({"failed": 1, "dropped": 2}, 0.1, (), ("1 failed", "2 dropped")),
        ({"steady": PLAYED["steady"] | {"messages": 1380}}, 0.1, (), ("saturated",)),
        ({"steady": PLAYED["steady"] | {"gaps": 1, "reordered": 1}}, 0.1, (), ("saturated", "1 reordered")),
    ],
)
def test_worthless_and_remarkable_results_are_told_apart(
    change: dict[str, Any], share: float, faults: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    assert run._faults(PLAYED | change, None, share) == (faults, notes)


def test_the_pump_is_judged_by_the_rounds_of_the_window() -> None:
    before = {0.001: 1000, 0.01: 1000, float("inf"): 1000}
    assert pump_p99_ms(before, {0.001: 1980, 0.01: 1999, float("inf"): 2000}) == 10.0
    assert pump_p99_ms(before, before) is None
    assert pump_p99_ms({}, {}) is None


def test_rounds_are_those_of_the_mean_worker() -> None:
    before, after = {0.001: 900, float("inf"): 1000}, {0.001: 1100, float("inf"): 1480}
    assert pump_rounds_per_s(before, after, 8.0, workers=1) == 60.0
    assert pump_rounds_per_s(before, after, 8.0, workers=2) == 30.0
    assert pump_rounds_per_s({}, {}, 8.0, workers=1) is None


def test_sends_to_a_viewer_are_told_where_each_round_is_of_one_stream() -> None:
    round_ = {"penstock": figures("penstock", 1.0, rounds_per_s=31.26)}
    assert "| sends/s" in table(SCENARIOS["fanout-200"], [round_])
    assert "| 31.3 " in table(SCENARIOS["fanout-200"], [round_])
    assert "sends/s" not in table(SCENARIOS["streams-50"], [round_])


def test_cpu_time_is_counted_while_it_is_used() -> None:
    before_s, started_at = cpu_s(os.getpid()), time.process_time()
    while time.process_time() - started_at < 0.2:
        pass
    assert 0.15 < cpu_s(os.getpid()) - before_s < 1.0


def test_memfds_count_by_their_blocks_and_once() -> None:
    before = memory(os.getpid())
    first = os.memfd_create("bench")
    second = os.dup(first)
    try:
        os.write(first, bytes(1 << 20))
        assert (memory(os.getpid()) - before).memfd_bytes == 1 << 20
    finally:
        os.close(first)
        os.close(second)
    assert before.pss_bytes > 1 << 20


def test_a_server_has_all_its_processes_on_one_core_and_they_count_together() -> None:
    core = min(os.sched_getaffinity(0))
    waits = "import sys; sys.stdin.read()"
    starts_another = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {waits!r}])"
    before = os.sched_getaffinity(0)
    with servers._on_core(core):
        parent = subprocess.Popen([sys.executable, "-c", starts_another], stdin=subprocess.PIPE)
    try:
        give_up_at = time.monotonic() + 10
        while len(with_descendants(parent.pid)) < 2 or waits not in command_line(with_descendants(parent.pid)[1]):
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
        _, child = with_descendants(parent.pid)
        assert os.sched_getaffinity(child) == {core}
        assert descriptors(parent.pid) > descriptors(child) > 0
        assert memory(parent.pid).pss_bytes > memory(child).pss_bytes > 0
        assert cpu_s(parent.pid) > cpu_s(child) > 0
    finally:
        parent.communicate()
    assert os.sched_getaffinity(0) == before


def test_a_core_works_for_everybody_on_it() -> None:
    core = min(os.sched_getaffinity(0))
    before_s, began_at = core_s(core), time.process_time()
    with servers._on_core(core):
        while time.process_time() - began_at < 0.2:
            pass
    assert core_s(core) - before_s > 0.15


def test_a_process_that_is_gone_costs_nothing() -> None:
    gone = 2**22 + 1
    assert (with_descendants(gone), cpu_s(gone), waited_s(gone), memory(gone).pss_bytes) == ([gone], 0.0, 0.0, 0)


@pytest.mark.parametrize("contestant", [each for each in CONTESTANTS.values() if each.program != "floor"])
def test_every_server_listens_where_it_is_told(contestant: Contestant, tmp_path: Path) -> None:
    command = command_of(contestant, tmp_path, 19350, 18080)
    assert "127.0.0.1:19350" in " ".join(command) + (tmp_path / "config").read_text(encoding="utf-8")


def test_a_server_is_given_as_many_workers_as_its_row_says(tmp_path: Path) -> None:
    assert command_of(CONTESTANTS["penstock"], tmp_path, 1, 2)[-2:] == ["--workers", "1"]
    assert command_of(CONTESTANTS["penstock 2 workers"], tmp_path, 1, 2)[-2:] == ["--workers", "2"]


def test_every_row_of_every_scenario_is_known() -> None:
    rows = {row for scenario in SCENARIOS.values() for row in scenario.rows}
    compared = {name for each in CONTESTANTS.values() for name in (each.floor, each.one_worker) if name is not None}
    assert (rows | compared) <= set(CONTESTANTS)


@pytest.mark.parametrize(("faults", "status"), [((), 0), (("generator at 71% of its core",), 1)])
def test_the_exit_code_says_whether_the_figures_hold(
    faults: tuple[str, ...], status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured: list[str] = []

    def measure(_scenario: object, contestant: Contestant, _cores: Cores, seconds: float) -> Figures:
        measured.append(f"{contestant.name} {seconds:g}")
        return figures(contestant.name, 1.0, faults=faults)

    installed: Callable[[str], bool] = lambda program: program != "penstock"  # noqa: E731
    monkeypatch.setattr(live, "measure", measure)
    monkeypatch.setattr(live, "is_installed", installed)
    json_path = tmp_path / "figures.json"
    assert live.main(["--quick", "--scenario", "fanout-200", "--rounds", "2", "--json", str(json_path)]) == status
    assert measured == ["nginx 3", "floor message 3", "floor frame 3"] * 2
    assert json_path.read_text(encoding="utf-8").count('"cost": 1.0') == 6


def test_a_scenario_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        live.main(["--scenario", "fanout-7"])
    assert "no scenario fanout-7" in capsys.readouterr().err


def test_only_the_rows_that_were_asked_for_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []

    def measure(_scenario: object, contestant: Contestant, _cores: Cores, _seconds: float) -> Figures:
        measured.append(contestant.name)
        return figures(contestant.name, 1.0)

    monkeypatch.setattr(live, "measure", measure)
    monkeypatch.setattr(live, "is_installed", lambda _program: True)
    assert live.main(["--quick", "--scenario", "fanout-200", "--row", "penstock,floor frame"]) == 0
    assert measured == ["penstock", "floor frame"]
    with pytest.raises(SystemExit):
        live.main(["--row", "apache"])
    assert "no row apache" in capsys.readouterr().err


def test_nothing_is_asked_of_a_server_without_metrics() -> None:
    assert servers.pump_rounds(None) == {}
    assert servers.pump_rounds("http://127.0.0.1:1/metrics") == {}
