"""The tables as Spark SQL sees them: schemas bronze, silver, rollup and gold with one view for each table.

Owns the text of the views. There is no metastore: a view looks at the folder of its table each time it is asked, and
shows the files that are committed at that moment, so a partition that was added later is there at once. Bronze, silver
and rollups follow the log of commits by the list of live files; gold is whatever lies in its folder.

Spark reads the schema of a folder whenever it makes a view of it, which is a job for each, and seconds for all. Whoever
knows the query beforehand has only those views made that it names: see `LakeTables.make_for`.
"""

import re
import threading
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import SparkSession

from penstock.pipeline.lake import Lake
from penstock.pipeline.layout import stored_tables
from penstock.pipeline.schemas import bronze_columns
from penstock.pipeline.sources.flv import FlvSource
from penstock.pipeline.sources.known import make_known
from penstock.pipeline.sources.own_plans import have_own_plans
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES

SCHEMAS: Final = ("bronze", "silver", "rollup", "gold")
FRAMES: Final = "silver.frames"
"""Every tag of every recording. Not a table of the lake, so known by name only here."""

_VIEWER_SAMPLES: Final = "silver.viewer_samples"
_NAMED: Final = re.compile(rf"\b({'|'.join(SCHEMAS)})\b(?:`?\s*\.\s*`?(\w+))?", re.IGNORECASE)
_SHOW: Final = re.compile(r"\s*show\b", re.IGNORECASE)


def register_tables(spark: SparkSession, lake: Lake) -> None:
    """Make, or make anew, the schemas and the views of all tables."""
    LakeTables(spark, lake).make_all()


class LakeTables:
    """The tables of one lake in one session, each made when it is first asked for. Threads may share it."""

    def __init__(self, spark: SparkSession, lake: Lake, recordings: str | None = None) -> None:
        """`recordings` is the folder of `silver.frames`; None: there is no such table."""
        self._spark = spark
        self._lake = lake
        self._recordings = None if recordings is None else Storage(recordings).address()
        self._known = [*stored_tables(), _VIEWER_SAMPLES, *([] if recordings is None else [FRAMES])]
        self._made: set[str] = set()
        self._turn = threading.Lock()

    def make_all(self) -> None:
        """Everything."""
        self._make(self._known)

    def make_for(self, query: str) -> None:
        """What a query needs: the tables that it names, and a whole schema where that is named alone."""
        self._make(tables_named(query, self._known))

    def _make(self, tables: Iterable[str]) -> None:
        with self._turn:
            missing = [table for table in tables if table not in self._made]
            if missing and not self._made:
                self._lake.create()
            for table in missing:
                self._make_one(table)

    def _make_one(self, table: str) -> None:
        if table in self._made:
            return
        schema = table.partition(".")[0]
        if not any(made.startswith(f"{schema}.") for made in self._made):
            self._spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        if table == FRAMES and self._recordings is not None:
            register_recordings(self._spark, self._recordings)
        elif table == _VIEWER_SAMPLES:
            self._make_one("bronze.viewer_sample")
            self._spark.sql(f"CREATE OR REPLACE VIEW {table} AS {_viewer_samples()}")
        else:
            self._spark.sql(f"CREATE OR REPLACE VIEW {table} AS {_query(self._lake.storage, table)}")
        self._made.add(table)


def tables_named(query: str, known: Sequence[str]) -> list[str]:
    """Those of the known tables that a query may need, at least: a name in a text or a comment counts too."""
    if _SHOW.match(query):
        return list(known)
    wanted: set[str] = set()
    for found in _NAMED.finditer(query.lower()):
        schema, name = found.groups()
        of_schema = {table for table in known if table.startswith(f"{schema}.")}
        wanted |= {f"{schema}.{name}"} & of_schema or of_schema
    return [table for table in known if table in wanted]


def register_recordings(spark: SparkSession, recordings: str) -> None:
    """Make silver.frames: every tag of every recording in a folder, by the source `flv`."""

    is_pushing = have_own_plans(spark)

    class Recordings(FlvSource):
        """The source `flv` on one folder: the catalogue of Spark hands no options to sources like it."""

        pushes_filters = is_pushing

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__({**options, "path": recordings})

        @classmethod
        def name(cls) -> str:
            return "penstock_recordings"

        def _paths(self) -> list[str]:
            # A folder that is not there yet has no recordings.
            return [path for path in super()._paths() if Storage(path).exists("")]

    # Sources belong to one session, though tables made of them are there for all.
    make_known(spark, [Recordings])
    spark.sql("CREATE SCHEMA IF NOT EXISTS silver")
    spark.sql(f"DROP TABLE IF EXISTS {FRAMES}")
    spark.sql(f"CREATE TABLE {FRAMES} USING penstock_recordings")


def _query(storage: Storage, table: str) -> str:
    layer, _, name = table.partition(".")
    if layer == "gold":
        columns = [column.name for column in TABLES[table].columns]
        return f"SELECT {_list(columns)} FROM parquet.{_quoted(storage.pattern(f'gold/{name}'))}"  # noqa: S608
    if layer == "bronze":
        columns, folder = bronze_columns(name), f"bronze/kind={name}"
    else:
        partition = ["hour"] if TABLES[table].partition else []
        columns, folder = [*(column.name for column in TABLES[table].columns), *partition], f"{layer}/{name}"
    files, live = (_quoted(storage.pattern(path)) for path in (folder, f"_live/{table}"))
    return (
        f"SELECT {_list(columns)} FROM parquet.{files} "  # noqa: S608 - nothing of it comes from outside
        f"WHERE _metadata.file_name IN (SELECT value FROM text.{live})"
    )


def _viewer_samples() -> str:
    derived = {"event_id": "concat_ws('-', server_id, boot_id, seq)", "at": "timestamp_micros(at_us)"}
    names = [column.name for column in TABLES["silver.viewer_samples"].columns]
    columns = ", ".join(f"{derived.get(name, name)} AS {name}" for name in names)
    return f"SELECT {columns}, hour FROM bronze.viewer_sample"  # noqa: S608


def _list(columns: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in columns)


def _quoted(pattern: str) -> str:
    return f"`{pattern.replace('`', '``')}`"
