"""A pipeline whose Java has ended, as by a query that has filled its memory: it says so, and can be started again."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CHILD = """
import io, sys
from pyspark import SparkContext
from penstock.errors import PipelineError
from penstock.pipeline.engine.session import SparkSettings
from penstock.pipeline.ops.cycle import Cycles
from penstock.pipeline.progress import LineProgress
from penstock.pipeline.settings import PipelineSettings

folders = (f"{sys.argv[1]}/{name}" for name in ("data", "lake", "facts", "recordings"))
settings = PipelineSettings(*folders, spark=SparkSettings(cores=1, is_short_lived=True))
cycles = Cycles(settings, LineProgress(io.StringIO(), is_json=False))
cycles.open()
print("has a runner:", cycles.query_runner() is not None)
SparkContext._gateway.proc.kill()
SparkContext._gateway.proc.wait()
print("has a runner:", cycles.query_runner() is not None)
try:
    cycles.open()
except PipelineError as error:
    print(error)
cycles.close()
"""


def test_nobody_is_given_a_session_whose_java_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=180)
    assert done.stdout.splitlines() == [
        "has a runner: True",
        "has a runner: False",
        "Spark has ended, as it does where a heap of 1g (pipeline.heap_bytes) is too small for a query",
    ]
