"""What taking facts in costs: landing files into bronze, beside Spark's own JSON reader with the same lines.

Simulated facts, as servers land them. Ours reads, judges, tells facts apart, writes bronze and commits; Spark's reads
with the types given and writes Parquet, and does nothing else. Both run in the same process tree, and what counts is
its CPU seconds, the least of some rounds after a warm one: machines are noisy. Run:
`python -m bench.ingest [--quick] [--viewers N] [--rounds N]`.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from bench.pipeline_report import markdown
from bench.usage import cpu_s
from penstock.pipeline.engine.session import SparkSettings, close_session, open_session
from penstock.pipeline.ingest.landing import ingest_landed
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.schemas import landing_schema
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.simulator import Platform, write_landing

CORES = 2
FULL = {"viewers": 2_000, "rounds": 3}
QUICK = {"viewers": 300, "rounds": 2}
AIM = "aim: 60,000 facts/s of one core into bronze"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    options = _read_arguments(arguments)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        platform = Platform(viewers=options.viewers, landing_s=300)
        facts = write_landing(platform, folder / "facts").facts
        landed = sorted((folder / "facts").rglob("*.jsonl"))
        size = sum(path.stat().st_size for path in landed)
        print(f"{facts:,} facts in {len(landed):,} landing files, {size / 1e6:.0f} MB; Spark on {CORES} threads\n")
        spark = open_session(SparkSettings(cores=CORES, heap="2g"))
        try:
            spark_s = least(lambda: read_by_spark(spark, folder, landed), options.rounds)
            own_s = least(lambda: ingest(folder, platform.ends_us), options.rounds)
        finally:
            close_session(spark)
    rows = [["", "CPU-s", "µs per fact", "facts/s of a core", "of Spark's"]]
    rows += [
        [name, f"{cost_s:.2f}", f"{cost_s / facts * 1e6:.1f}", f"{facts / cost_s:,.0f}", f"{cost_s / spark_s:.2f}"]
        for name, cost_s in (("landing to bronze", own_s), ("Spark, JSON to Parquet", spark_s))
    ]
    print(markdown(rows))
    print(f"\n{AIM}")
    return 0


def least(work: Callable[[], None], rounds: int) -> float:
    """CPU seconds of the cheapest round, after one that does not count."""
    spent = []
    for _ in range(rounds + 1):
        before_s = cpu_s(os.getpid())
        work()
        spent.append(cpu_s(os.getpid()) - before_s)
    return min(spent[1:])


def ingest(folder: Path, now_us: int) -> None:
    """All files into the bronze of a lake of their own."""
    shutil.rmtree(folder / "lake", ignore_errors=True)
    ingest_landed(Lake(Storage(folder / "lake")), Storage(folder / "facts"), now_us)


def read_by_spark(spark: SparkSession, folder: Path, landed: Sequence[Path]) -> None:
    """The same files by Spark's reader, into Parquet."""
    shutil.rmtree(folder / "parquet", ignore_errors=True)
    spark.read.schema(landing_schema()).json([str(path) for path in landed]).write.parquet(str(folder / "parquet"))


def _read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer facts and rounds")
    parser.add_argument("--viewers", type=int, help="views of the simulated day")
    parser.add_argument("--rounds", type=int, help="of which the cheapest counts")
    options = parser.parse_args(arguments)
    for name, value in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


if __name__ == "__main__":
    raise SystemExit(main())
