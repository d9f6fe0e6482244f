"""Makes the class archive: Java records the classes of a session that does a little of everything.

Owns what that session does. It is a program (`python -m penstock.pipeline.engine.class_training`) that needs about 20 s
of one core, once for each pair of Java and Spark: recording nearly doubles the cost of a start, so no session that
somebody waits for is recorded. Nothing depends on its success.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from penstock.errors import ConfigError
from penstock.pipeline.engine.class_archive import archive_path, base_archive, recording_options
from penstock.pipeline.engine.java import Java, cache_folder, find_java
from penstock.pipeline.engine.session import SparkSettings, open_session

MODULE: Final = "penstock.pipeline.engine.class_training"
TRAINING_TIMEOUT_S: Final = 600.0


def ensure_archive() -> Path:
    """The archive, made if it is not there; a ConfigError says why it cannot be."""
    java, kept_in = find_java(), cache_folder()
    if kept_in is None:
        raise ConfigError("class archive: there is no cache folder that can be written to")
    archive = archive_path(java, kept_in)
    if archive.is_file():
        return archive
    try:
        with tempfile.TemporaryDirectory(prefix=".training-", dir=kept_in) as folder:
            draft = Path(folder) / "draft.jsa"
            ensure_base(java, kept_in, Path(folder) / "base.jsa")
            # Its own process: the archive is written when Java ends, which holds the pipe of the output until then.
            _run([sys.executable, "-c", f"from {MODULE} import train; train({os.fspath(draft)!r})"])
            draft.replace(archive)
    except OSError as error:
        raise ConfigError(f"class archive: {error}") from error
    return archive


def train(draft: str) -> None:
    """Run the session that Java records."""
    java, kept_in = find_java(), cache_folder()
    if kept_in is None:
        return
    recorded = " ".join(recording_options(java, kept_in, Path(draft)))
    spark = open_session(SparkSettings(cores=1, is_short_lived=True, java_options=recorded))
    with tempfile.TemporaryDirectory() as folder:
        exercise(spark, Path(folder))
    spark.stop()


def exercise(spark: SparkSession, folder: Path) -> None:
    """A little of what a cycle and a query do: Parquet out and in, aggregate, join, rank, SQL."""
    table = str(folder / "table")
    rows = spark.range(100).select("id", (F.col("id") % 7).alias("key"), F.xxhash64("id").alias("hash"))
    rows.write.partitionBy("key").parquet(table)
    stored = spark.read.parquet(table)
    sums = stored.groupBy("key").agg(F.sum("id").alias("total"), F.countDistinct("id").alias("ids"))
    newest = F.row_number().over(Window.partitionBy("key").orderBy(F.desc("id")))
    stored.withColumn("rank", newest).filter("rank = 1").join(sums, "key").createOrReplaceTempView("joined")
    spark.sql("select key, sum(total), max(ids) from joined group by key order by key").collect()


def ensure_base(java: Java, kept_in: Path, draft: Path) -> None:
    """Make the archive of a Java that came without one, through `draft`."""
    base = base_archive(java, kept_in)
    if base is None or base.is_file():
        return
    _run([str(java.home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={draft}"])
    draft.replace(base)


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRAINING_TIMEOUT_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"class archive: {command[0]} took more than {TRAINING_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        raise ConfigError(f"class archive: {command[0]} ended with status {done.returncode}: {done.stderr[-1000:]}")


if __name__ == "__main__":
    try:
        ensure_archive()
    except ConfigError as reason:
        sys.exit(str(reason))
