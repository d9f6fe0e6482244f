"""All tests with coverage, but for the folders that are named.

Tests of the pipeline mostly wait for Java, so those of bytes alone run beside them. Whatever has a clock or a socket in
it needs the machine for itself, and runs afterwards.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PIPELINE = "tests/pipeline"
OF_BYTES = ("tests/amf", "tests/media", "tests/protocol", "tests/test_fuzz.py", "tests/test_fuzz_findings.py")


def main(left_out: list[str]) -> int:
    """Run everything, whatever fails, and say by the status whether all went well."""
    for covered in Path().glob(".coverage*"):
        covered.unlink()
    with tempfile.TemporaryFile() as told, started("pipeline", [PIPELINE], left_out, told.fileno()) as pipeline:
        try:
            with started("bytes", OF_BYTES, left_out) as of_bytes:
                of_bytes.wait()
            pipeline.wait()
        finally:
            pipeline.terminate()
        told.seek(0)
        sys.stdout.buffer.write(told.read())
        sys.stdout.flush()
    with started("others", ["tests"], [PIPELINE, *OF_BYTES, *left_out]) as others:
        others.wait()
    subprocess.run([sys.executable, "-m", "coverage", "combine", "--quiet"], check=True)
    report = subprocess.run([sys.executable, "-m", "coverage", "report"], check=False)
    return int(any(run.returncode for run in (pipeline, of_bytes, others, report)))


def started(
    name: str, places: Sequence[str], left_out: Sequence[str], output: int | None = None
) -> subprocess.Popen[bytes]:
    """Pytest at work in some places and not in others."""
    options = ["--cov", "--cov-report=", "--cov-fail-under=0", *(f"--ignore={place}" for place in left_out)]
    return subprocess.Popen(  # noqa: S603 - the tests of this repository
        [sys.executable, "-m", "pytest", *options, *places],
        env={**os.environ, "COVERAGE_FILE": f".coverage.{name}"},
        stdout=output,
        stderr=output,
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
