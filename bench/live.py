"""What a live server costs beside nginx-rtmp and the kernel's own floor, on this machine and in the same run.

Rounds are interleaved over scenarios and rows, each row a fresh server, since machines are noisy and ratios within a
round are what travels. Figures are invalid, and the exit code 1, where the generator took above 70 % of its core or a
viewer got a wrong byte.

Run: `python -m bench.live [--quick] [--scenario NAME,…] [--row NAME,…] [--rounds N] [--json FILE]`.
"""

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.support.processes import ProgramFailed

from bench.live_report import Round, table
from bench.load import LoadFailed
from bench.run import Cores, measure
from bench.scenarios import SCENARIOS, Scenario
from bench.servers import CONTESTANTS, is_installed

FULL = {"seconds": 8.0, "rounds": 3}
QUICK = {"seconds": 3.0, "rounds": 1}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, and say by the exit code whether they hold."""
    options = _read_arguments(arguments)
    cores = Cores.apart()
    if cores.server is None:
        print("One core: server and generator share it, and CPU shares of the generator mean little.")
    else:
        print(f"The server runs on core {cores.server}, the generators on core {cores.generator}.")
    missing = sorted({each.program for each in CONTESTANTS.values() if not is_installed(each.program)})
    if missing:
        print(f"Left out, since not installed here: {', '.join(missing)}.")
    results: dict[str, list[Round]] = {name: [] for name in options.scenario}
    is_good = True
    for number in range(1, options.rounds + 1):
        for name in options.scenario:
            figures, is_whole = _run_round(SCENARIOS[name], options.row, cores, options.seconds, f"round {number}")
            is_good &= is_whole and not any(each.faults for each in figures.values())
            results[name].append(figures)
    for name, rounds in results.items():
        print(f"\n{table(SCENARIOS[name], rounds)}")
    if options.json:
        rows = [asdict(each) for rounds in results.values() for figures in rounds for each in figures.values()]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0 if is_good else 1


def _run_round(
    scenario: Scenario, wanted: Collection[str], cores: Cores, seconds: float, label: str
) -> tuple[Round, bool]:
    """The figures of all wanted rows that can run here, and whether each of them came to an end."""
    figures: Round = {}
    is_whole = True
    for row in scenario.rows:
        if row not in wanted:
            continue
        contestant = CONTESTANTS[row]
        if not is_installed(contestant.program):
            continue
        print(f"{label}: {scenario.name}, {row}", file=sys.stderr, flush=True)
        try:
            figures[row] = measure(scenario, contestant, cores, seconds)
        except (LoadFailed, ProgramFailed) as error:
            print(f"{scenario.name}, {row}: {error}", file=sys.stderr)
            is_whole = False
    return figures, is_whole


def _read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.live", description="Measure the live server beside its peers."
    )
    parser.add_argument("--quick", action="store_true", help="one round of 3 s windows: a few minutes in all")
    parser.add_argument(
        "--scenario",
        type=_read_scenarios,
        default=list(SCENARIOS),
        metavar="NAME[,NAME…]",
        help=f"some of {', '.join(SCENARIOS)}",
    )
    parser.add_argument(
        "--row",
        type=_read_rows,
        default=list(CONTESTANTS),
        metavar="NAME[,NAME…]",
        help="only these rows of each scenario",
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="length of each window")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's figures there")
    options = parser.parse_args(arguments)
    for name, value in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def _read_scenarios(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise argparse.ArgumentTypeError(f"no scenario {', '.join(unknown)}")
    return names


def _read_rows(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in CONTESTANTS]:
        raise argparse.ArgumentTypeError(f"no row {', '.join(unknown)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
