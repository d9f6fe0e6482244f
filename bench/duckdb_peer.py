"""DuckDB beside the pipeline: the same tables from the same bronze, written as Parquet, and rows compared.

Owns the connection and how tables are written: silver and rollups by hour, gold as one file, as the lake has them.
"""

import resource
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import duckdb

from bench.duckdb_tables import MACROS, STATEMENTS
from penstock.pipeline.build.plan import lost_boots
from penstock.pipeline.lake.hours import HOUR_US, us_of_hour
from penstock.pipeline.lake.state import State

MINUTES_PER_HOUR = 60


@dataclass(frozen=True, slots=True)
class Taken:
    """What something took."""

    wall_s: float
    cpu_s: float


class DuckDbPeer:
    """DuckDB with two threads, over the files of a lake's bronze."""

    def __init__(self, lake: Path, threads: int) -> None:
        self._lake = lake
        self._connection = duckdb.connect(config={"threads": threads})
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET preserve_insertion_order = false")

    def close(self) -> None:
        """Let go of everything."""
        self._connection.close()

    def show_samples(self) -> None:
        """Make the viewer samples of bronze known as `samples`."""
        files = f"{self._lake}/bronze/facts/kind=viewer_sample/*/*.parquet"
        self._connection.execute(
            f"CREATE OR REPLACE VIEW samples AS SELECT * FROM read_parquet('{files}', hive_partitioning = true)"
        )

    def ask(self, question: str) -> tuple[list[tuple[object, ...]], Taken]:
        """The answer to a question, sorted, and what it took."""
        began = _now()
        rows = self._connection.execute(question).fetchall()
        return sorted(rows, key=repr), _since(began)

    def rebuild(self, state: State, hours: Collection[str], as_of_us: int, silent_us: int, target: Path) -> Taken:
        """Make every table anew from bronze and write it below the target."""
        began = _now()
        run = self._connection.execute
        lost = {boot.boot_key for boot in lost_boots(state.boots.values(), as_of_us, silent_us)}
        run("CREATE OR REPLACE TABLE boots (boot_key BIGINT, server_id VARCHAR, boot_id VARCHAR, is_lost BOOLEAN)")
        for boot in state.boots.values():
            row = [boot.boot_key, boot.server_id, boot.boot_id, boot.boot_key in lost]
            run("INSERT INTO boots VALUES (?, ?, ?, ?)", row)
        first_minute = us_of_hour(min(hours)) // HOUR_US * MINUTES_PER_HOUR
        until_minute = (us_of_hour(max(hours)) // HOUR_US + 1) * MINUTES_PER_HOUR
        bronze = str(self._lake / "bronze/facts")
        run(MACROS.replace("CREATE MACRO", "CREATE OR REPLACE MACRO").replace("{bronze}", bronze))
        for table, statement in STATEMENTS.items():
            name = table.partition(".")[2]
            query = statement.format(first_minute=first_minute, until_minute=until_minute)
            run(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")
            self._write(table, target)
        return _since(began)

    def _write(self, table: str, target: Path) -> None:
        folder = target / table.replace(".", "/")
        name = table.partition(".")[2]
        if table.startswith("gold."):
            folder.mkdir(parents=True, exist_ok=True)
            self._connection.execute(f"COPY {name} TO '{folder}/part.parquet' (FORMAT parquet)")
        else:
            folder.parent.mkdir(parents=True, exist_ok=True)
            options = "FORMAT parquet, PARTITION_BY (hour), OVERWRITE_OR_IGNORE"
            self._connection.execute(f"COPY {name} TO '{folder}' ({options})")

    def differences(self, table: str, ours: Collection[Path], theirs: Path) -> int:
        """In how many rows the two differ, counting those that only one has."""
        names = [str(path) for path in ours]
        peers = f"{theirs / table.replace('.', '/')}/**/*.parquet"
        read = self._connection.sql
        mine = read(f"SELECT * FROM read_parquet({names}, hive_partitioning = false)")
        columns = []
        for column, kind in zip(mine.columns, mine.types, strict=True):
            if column == "hour":  # of silver and rollups; the peer has it in the names of its folders
                continue
            text = f'"{column}"'
            # Spark's times are instants, DuckDB's own have no zone: both are UTC.
            columns.append(f"{text}::TIMESTAMP AS {text}" if "TIME ZONE" in str(kind) else text)
        listed = ", ".join(columns)
        left = f"SELECT {listed} FROM read_parquet({names}, hive_partitioning = false)"
        right = f"SELECT {listed} FROM read_parquet('{peers}', hive_partitioning = false)"
        found = self._connection.execute(
            f"SELECT (SELECT count(*) FROM (({left}) EXCEPT ALL ({right})))"
            f" + (SELECT count(*) FROM (({right}) EXCEPT ALL ({left})))"
        ).fetchone()
        return 0 if found is None else int(found[0])


def _now() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def _since(began: tuple[float, float]) -> Taken:
    wall_s, cpu_s = _now()
    return Taken(wall_s - began[0], cpu_s - began[1])
