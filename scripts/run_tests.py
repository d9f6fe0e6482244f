"""All tests with coverage, but for the folders that are named.

Tests of the pipeline mostly wait for Java, so others run beside them. The scenarios and the tests with real programs
hold a live server to deadlines, and run by themselves afterwards.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PIPELINE = "tests/pipeline"
ALONE = ("tests/scenarios", "tests/interop")


def main(left_out: list[str]) -> int:
    """Run everything, whatever fails, and say by the status whether all went well."""
    for covered in Path().glob(".coverage*"):
        covered.unlink()
    with tempfile.TemporaryFile() as told, started("pipeline", [PIPELINE], left_out, told.fileno()) as pipeline:
        try:
            with started("others", ["tests"], [PIPELINE, *ALONE, *left_out]) as others:
                others.wait()
            pipeline.wait()
        finally:
            pipeline.terminate()
        told.seek(0)
        sys.stdout.buffer.write(told.read())
        sys.stdout.flush()
    with started("alone", ALONE, left_out) as alone:
        alone.wait()
    subprocess.run([sys.executable, "-m", "coverage", "combine", "--quiet"], check=True)
    report = subprocess.run([sys.executable, "-m", "coverage", "report"], check=False)
    return int(any(run.returncode for run in (pipeline, others, alone, report)))


def started(
    name: str, folders: list[str] | tuple[str, ...], left_out: list[str], output: int | None = None
) -> subprocess.Popen[bytes]:
    """Pytest on some folders but not on others, at work."""
    options = ["--cov", "--cov-report=", "--cov-fail-under=0", *(f"--ignore={folder}" for folder in left_out)]
    return subprocess.Popen(  # noqa: S603 - the tests of this repository
        [sys.executable, "-m", "pytest", *options, *folders],
        env={**os.environ, "COVERAGE_FILE": f".coverage.{name}"},
        stdout=output,
        stderr=output,
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
