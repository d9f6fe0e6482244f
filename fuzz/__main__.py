"""Broken input for every reader of the protocol core: `python -m fuzz --seconds 60 --seed 1`.

Each target is given inputs made by chance from its corpus, the same for the same seed. Any input must lead to values
or to the error of its family, in bounded time and memory, and to the same result however it is cut. What does not is a
finding: its input is made smaller and kept under `fuzz/findings`, and the command ends with 1.
"""

import argparse
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from fuzz.outcome import Target
from fuzz.runner import FINDINGS_DIR, Finding, run_input, run_target
from fuzz.targets import TARGETS


def main(arguments: Sequence[str] | None = None, all_targets: Mapping[str, Target] = TARGETS) -> int:
    """Run the command; the result is its exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Feed the readers broken input.")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together (60)")
    parser.add_argument("--runs", type=int, help="for each target, in place of --seconds")
    parser.add_argument("--seed", type=int, default=1, help="decides all inputs (1)")
    parser.add_argument("--target", action="append", choices=sorted(all_targets), help="only this one; may be repeated")
    parser.add_argument("--findings", type=Path, default=FINDINGS_DIR, help="folder for what is found")
    parser.add_argument("--replay", type=Path, help="run the input in this file against each chosen target")
    chosen = parser.parse_args(arguments)
    targets = [all_targets[name] for name in chosen.target or all_targets]
    if chosen.replay is not None:
        data = bytes.fromhex(chosen.replay.read_text(encoding="ascii"))
        for target in targets:
            print(target.name, *run_input(target, data))
        return 0
    findings: list[Finding] = []
    max_seconds = None if chosen.runs is not None else chosen.seconds / len(targets)
    for target in targets:
        tally, finding = run_target(target, chosen.seed, max_runs=chosen.runs, max_seconds=max_seconds)
        print(tally, flush=True)
        if finding is not None:
            findings.append(finding)
            _report(finding, finding.save(chosen.findings))
    return 1 if findings else 0


def _report(finding: Finding, path: Path) -> None:
    traceback.print_exception(finding.fault, file=sys.stdout)
    print(f"FOUND by {finding.target}, seed {finding.seed}, run {finding.run}: {len(finding.data)} bytes in {path}")


if __name__ == "__main__":
    sys.exit(main())
