"""The tables as Spark SQL sees them: schemas bronze, silver, rollup and gold with one view for each table.

Owns the text of the views. A view is of one version of its table, the newest when it was made: what runs commit later
is seen when it is made again, by `refresh`. There is no metastore. Spark is told the files of a version by a table over
just these, in a schema of its own, which knows their days: a query that asks for days opens no other files.

Whoever knows the query beforehand has only those views made that it names: see `LakeViews.refresh_for`.
"""

import re
import threading
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE, folder_of, named_tables, schema_of, stored_as, viewer_samples_columns
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.sources.flv.source import FlvSource
from penstock.pipeline.sources.registration import register_data_sources

SCHEMAS: Final = ("bronze", "silver", "rollup", "gold")
FRAMES: Final = "silver.frames"
"""Every tag of every recording. Not a table of the lake, so known by name only here."""

_VERSIONS: Final = "lake_versions"
_VIEWER_SAMPLES: Final = "silver.viewer_samples"
_NAMED: Final = re.compile(rf"\b({'|'.join(SCHEMAS)})\b(?:`?\s*\.\s*`?(\w+))?", re.IGNORECASE)
_SHOW: Final = re.compile(r"\s*show\b", re.IGNORECASE)


class LakeViews:
    """The tables of one lake in one session. Threads may share it."""

    def __init__(self, spark: SparkSession, lake: Lake, recordings: str | None = None) -> None:
        """`recordings` is the folder of `silver.frames`; None: there is no such table."""
        self._spark = spark
        self._lake = lake
        self._recordings = None if recordings is None else Storage(recordings).address()
        self._known = [*named_tables(), *([] if recordings is None else [FRAMES])]
        self._versions: dict[str, int] = {}
        """Of each view the version that it is of."""
        self._table_ids: dict[str, str] = {}
        """Of each view the table that it is of: the one in the same place before may have had that version too."""
        self._sources: dict[str, str] = {}
        """Of each view the table that it selects from."""
        self._made: set[str] = set()
        self._turn = threading.RLock()

    def refresh(self) -> dict[str, int]:
        """Make every view of the newest version of its table. Which those are; -1: nothing was ever written."""
        return self._refresh(self._known)

    def refresh_for(self, query: str) -> dict[str, int]:
        """The same for what a query needs: the tables that it names, and a whole schema where that is named alone."""
        return self._refresh(tables_named(query, self._known))

    def sql(self, query: str) -> DataFrame:
        """What a query asks, of the newest versions. Others wait: a table must not go before Spark has looked it up."""
        with self._turn:
            self.refresh_for(query)
            return self._spark.sql(query)

    def _refresh(self, tables: Iterable[str]) -> dict[str, int]:
        with self._turn:
            pins: dict[str, Pinned | None] = {}
            for table in tables:
                if table == FRAMES:
                    self._make_frames()
                    continue
                stored = stored_as(table)
                if stored not in pins:
                    pins[stored] = self._lake.pin(stored)
                self._make(table, stored, pins[stored])
            self._drop_unused()
            return {table: self._versions[table] for table in tables if table != FRAMES}

    def _make(self, table: str, stored: str, pinned: Pinned | None) -> None:
        version, made = (-1, "") if pinned is None else (pinned.version, pinned.id)
        if (self._versions.get(table), self._table_ids.get(table)) == (version, made):
            return
        schema = table.partition(".")[0]
        self._spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        source = self._table_of_version(stored, pinned, version)
        self._spark.sql(f"CREATE OR REPLACE VIEW {table} AS {_query(table, source)}")
        self._versions[table], self._table_ids[table], self._sources[table] = version, made, source

    def _drop_unused(self) -> None:
        """Let Spark forget tables that no view selects from any more. Their files are not Spark's, and stay."""
        used = set(self._sources.values())
        for name in self._made - used:
            self._spark.sql(f"DROP TABLE IF EXISTS {name}")
        self._made &= used

    def _table_of_version(self, stored: str, pinned: Pinned | None, version: int) -> str:
        """A table over just the files of a version, or what stands for one without files."""
        if pinned is None or not pinned.files:
            nulls = (f"CAST(NULL AS {field.dataType.simpleString()}) AS `{field.name}`" for field in schema_of(stored))
            return f"(SELECT {', '.join(nulls)} WHERE false)"
        # A session may see several lakes, and a lake that was removed and made again.
        which = zlib.crc32(f"{self._lake.storage.root} {pinned.id}".encode())
        name = f"{_VERSIONS}.{stored.replace('.', '_')}_{version}_{which:08x}"
        if self._spark.catalog.tableExists(name):
            return name
        self._spark.sql(f"CREATE SCHEMA IF NOT EXISTS {_VERSIONS}")
        folder = folder_of(stored)
        files = ",".join(file.path for file in pinned.files)
        self._spark.catalog.createTable(
            name,
            path=f"{self._lake.storage.pattern(folder)}/{{{files}}}",
            source="parquet",
            schema=schema_of(stored),
            basePath=self._lake.storage.address(folder),
        )
        self._made.add(name)
        return name

    def _make_frames(self) -> None:
        if FRAMES not in self._versions and self._recordings is not None:
            register_recordings(self._spark, self._recordings)
            self._versions[FRAMES] = 0


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

    class Recordings(FlvSource):
        """The source `flv` on one folder: the catalogue of Spark hands no options to sources like it."""

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__({**options, "path": recordings})

        @classmethod
        def name(cls) -> str:
            return "penstock_recordings"

        def _paths(self) -> list[str]:
            # A folder that is not there yet has no recordings.
            return [path for path in super()._paths() if Storage(path).exists("")]

    # Sources belong to one session, though tables made of them are there for all.
    register_data_sources(spark, [Recordings])
    spark.sql("CREATE SCHEMA IF NOT EXISTS silver")
    spark.sql(f"DROP TABLE IF EXISTS {FRAMES}")
    spark.sql(f"CREATE TABLE {FRAMES} USING penstock_recordings")


def _query(table: str, source: str) -> str:
    """What a view selects from the table of its version."""
    if table == _VIEWER_SAMPLES:
        return f"SELECT {', '.join(viewer_samples_columns())} FROM {source} WHERE kind = 'viewer_sample'"  # noqa: S608
    columns = ", ".join(f"`{name}`" for name in schema_of(table).names)
    kind = f" WHERE kind = '{table.removeprefix('bronze.')}'" if stored_as(table) == BRONZE and table != BRONZE else ""
    return f"SELECT {columns} FROM {source}{kind}"  # noqa: S608 - nothing of it comes from outside
