"""One Spark session, with the settings that the pipeline relies on.

Owns every setting that a result depends on: the session is in UTC, timestamps are stored as microseconds, and names of
partitions stay text. Settings that only affect speed are here too: the Java that Spark runs on, its garbage collector
and its class archive. A session that somebody else made is used as it is, apart from what results depend on.
"""

import atexit
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.errors import ConfigError
from penstock.pipeline.engine.class_archive import archive_options
from penstock.pipeline.engine.java import Java, cache_folder, find_java, launcher_home

NEEDED: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Hours and days in the names of folders are text, not times in some zone.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
"""What results depend on, whoever made the session."""

CHOSEN: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # collect_list and its like aggregate by hash up to this many keys; the default is 128, and sorting from then on.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000",
    # Tables are read by explicit lists of files. Above this many paths Spark runs a job to look each of them up: of
    # 10,000 paths that took 29 to 34 CPU-s, and 2 CPU-s in the driver.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # Spark describes every plan, for a page that nobody sees.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "200",
    "spark.sql.debug.maxToStringFields": "3",
    # Spark judges a table by its compressed files, and holds one below this in memory as a hash table. The default is
    # 10 MB; of many streams 4 MB were a million rows, which a heap of 1 GB had no room for.
    "spark.sql.autoBroadcastJoinThreshold": "2m",
    # Files are listed by our own pruning, and most joins are with few rows.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    # A cycle has some 150 stages and Spark keeps the generated code of 100: each cycle compiled all of it again, which
    # was a third of its work.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Derived from the heap it would be 32 MB, which is zeroed for each sort and each join of however few rows.
    "spark.buffer.pageSize": "4m",
    # Spark records the Python line of every expression, by ten calls into Java for each. A cycle has thousands.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""What makes it quick on one machine."""

LOOPBACK: Final = "127.0.0.1"
LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
# Java logs at each start why a class archive was not used; nobody can act on that.
QUIET: Final = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} -Xlog:disable"
# Parallel collection took 9 to 20 % less time on long queries than Java's default. A cycle compiles some 100 MB of
# code; of its default 240 MB Java drops what has not run for a while, and within seven cycles it did.
LONG_LIVED: Final = "-XX:+UseParallelGC -XX:ReservedCodeCacheSize=512m"
# A session of seconds ends before the optimising compiler has earned what it costs. Without that compiler the default
# code cache is 48 MB, which some cycles fill: from then on Java compiles nothing.
SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How a session is made. Without `master` it is local, on `cores`; on a cluster `cores` only sizes shuffles."""

    master: str | None = None
    cores: int = field(default_factory=usable_cores)
    heap: str = "1g"
    is_short_lived: bool = False
    """For a few seconds of work: starts in half the time, and is slower at long queries."""
    java_options: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Spark. They override ours, except those that results depend on."""

    @property
    def url(self) -> str:
        return self.master or f"local[{self.cores}]"

    @property
    def is_in_one_process(self) -> bool:
        """Whether driver and executor are the same Java."""
        return self.url == "local" or self.url.startswith("local[")

    @property
    def is_on_loopback(self) -> bool:
        """Whether nothing of this session needs to be reached from other machines."""
        return self.url.startswith("local") or urlsplit(self.url).hostname in (LOOPBACK, "localhost")


def open_session(settings: SparkSettings | None = None) -> SparkSession:
    """A session of this process, or the one that is there: then only what results depend on is set."""
    there = SparkSession.getActiveSession()
    if there is not None:
        ensure_needed(there)
        return there
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Under spark-submit Java runs already, and the operator has chosen where the work is done.
        spark = SparkSession.builder.getOrCreate()
        ensure_needed(spark)
        return spark
    settings = settings or SparkSettings()
    java, kept_in = find_java(), cache_folder()
    builder = SparkSession.builder.master(settings.url).appName("penstock")
    for name, value in session_conf(settings, java, kept_in).items():
        builder = builder.config(name, value)
    with _environment(launch_environment(settings, java, kept_in)), _own_interrupt():
        return builder.getOrCreate()


def close_session(spark: SparkSession) -> None:
    """End a session and the Java process that was started for it: `stop` alone leaves its memory in use."""
    # Java may be gone or about to go: its memory was full, or what ends us was sent to the whole group.
    with contextlib.suppress(Py4JError, ConnectionError):
        spark.stop()
    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no public way to end its Java process
    if gateway is None:
        return
    with contextlib.suppress(Py4JError, ConnectionError):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        # Spark's launcher ends when its input does.
        process.stdin.close()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def has_ended() -> bool:
    """Whether the Java that this process started is gone: one whose memory a query has filled ends by itself."""
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - as above
    return process is not None and process.poll() is not None


def ensure_needed(spark: SparkSession, needed: Mapping[str, str] = NEEDED) -> None:
    """Set what results depend on in a session that somebody else made; a ConfigError names what must be set earlier."""
    too_late = []
    for name, value in needed.items():
        if spark.conf.get(name, None) == value:
            continue
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
        else:
            too_late.append(f"--conf {name}={value}")
    if too_late:
        raise ConfigError(f"spark: tables depend on settings that a session has from its start: {' '.join(too_late)}")


def session_conf(settings: SparkSettings, java: Java, kept_in: Path | None) -> dict[str, str]:
    """All settings of a session. Those of the driver take effect only if this process starts its Java."""
    options = [QUIET, SHORT_LIVED if settings.is_short_lived else LONG_LIVED]
    options += [*archive_options(java, kept_in), settings.java_options]
    local_address = {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
    return {
        **CHOSEN,
        **(local_address if settings.is_on_loopback else {}),
        # Spark's ports are open to every user of this machine and accept serialised objects. In one process Spark makes
        # up a secret that nobody sees; on a cluster the operator has to set one for all its parts.
        # Adapting plans while they run costs a quarter of a small cycle, and pays where partitions are many and skewed:
        # of the few that one machine has there is little to join or to split.
        **({"spark.authenticate": "true", "spark.sql.adaptive.enabled": "false"} if settings.is_in_one_process else {}),
        "spark.driver.memory": settings.heap,
        "spark.driver.extraJavaOptions": " ".join(option for option in options if option),
        "spark.sql.shuffle.partitions": str(2 * settings.cores),
        "spark.sql.warehouse.dir": str(_warehouse()),
        "spark.pyspark.python": _worker_python(settings),
        **settings.conf,
        **NEEDED,
    }


def launch_environment(settings: SparkSettings, java: Java, kept_in: Path | None) -> dict[str, str]:
    """The variables under which Spark has to be started."""
    # PySpark reads the interpreter of its workers from here only; the setting of that name is for spark-submit.
    environment = {"JAVA_HOME": str(launcher_home(java, kept_in)), "PYSPARK_PYTHON": _worker_python(settings)}
    if settings.is_on_loopback:
        environment["SPARK_LOCAL_IP"] = LOOPBACK
    return environment


def _worker_python(settings: SparkSettings) -> str:
    """Workers need the driver's version of Python; on other machines it may have another path."""
    named = settings.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    return sys.executable if named is None or settings.url.startswith("local") else named


@cache
def _warehouse() -> Path:
    """Where Spark makes the folders of schemas, by default in the current folder. No table is stored there."""
    folder = tempfile.mkdtemp(prefix="penstock-warehouse-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@contextlib.contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep the program's own handler of Ctrl-C, if it has one: Spark installs another, which cancels all jobs."""
    before = signal.getsignal(signal.SIGINT)
    yield
    has_own = callable(before) and before is not signal.default_int_handler
    if has_own and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
