"""The same targets under atheris, which follows the branches that an input takes.

`python -m fuzz.atheris_run TARGET -max_total_time=60`: all after the target's name is libFuzzer's. What the target's
own maker gives is the start, unless a folder is named; inputs that reach new branches are kept for the next time.
Needs the extra `fuzz`. A finding can be run again with `python -m fuzz --target TARGET --replay FILE`.
"""

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

try:
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]
except ImportError:
    sys.exit("atheris is not installed: pip install 'penstock[fuzz]'")

# What is imported in here reports its branches, so the product must not have been imported before.
with atheris.instrument_imports(include=["penstock"]):
    from fuzz.outcome import CHOICE_BYTES, MAX_DATA_BYTES, Target
    from fuzz.runner import FINDINGS_DIR, Finding, make_input, run_input, shrink
    from fuzz.targets import TARGETS

_FIRST_INPUTS = 300


def main(arguments: Sequence[str]) -> None:
    """Run until libFuzzer ends the process: with 0 at its bound, with another status at a finding."""
    if len(arguments) < 2 or arguments[1] not in TARGETS:
        sys.exit(f"usage: python -m fuzz.atheris_run TARGET [libFuzzer options]; targets: {' '.join(TARGETS)}")
    target = TARGETS[arguments[1]]
    FINDINGS_DIR.mkdir(exist_ok=True)
    options = [f"-max_len={CHOICE_BYTES + MAX_DATA_BYTES}", f"-artifact_prefix={FINDINGS_DIR}/", *arguments[2:]]
    if all(option.startswith("-") for option in options):
        options.append(str(_kept_inputs(target)))
    run_numbers = itertools.count()

    def run(data: bytes) -> None:
        run_number = next(run_numbers)
        try:
            run_input(target, data)
        except Exception as fault:
            smallest = shrink(data, fault, lambda smaller: run_input(target, smaller))
            print(f"FOUND: {Finding(target.name, 0, run_number, smallest, fault).save(FINDINGS_DIR)}")
            raise

    atheris.Setup([arguments[0], *options], run)
    atheris.Fuzz()


def _kept_inputs(target: Target) -> Path:
    """The folder of the target's inputs; it is filled here the first time, and by libFuzzer."""
    directory = FINDINGS_DIR / f"{target.name}-inputs"
    if not directory.exists():
        directory.mkdir()
        for run in range(_FIRST_INPUTS):
            (directory / f"{run:03}").write_bytes(make_input(target, 1, run))
    return directory


if __name__ == "__main__":
    main(sys.argv)
