"""The tables as Spark SQL sees them: schemas bronze, silver, rollup and gold with one view for each table.

Owns the text of the views. There is no metastore: a view looks at the folder of its table each time it is asked, and
shows the files that are committed at that moment, so a partition that was added later is there at once. Bronze, silver
and rollups follow the log of commits by the list of live files; gold is whatever lies in its folder.
"""

from pyspark.sql import SparkSession

from penstock.pipeline.lake import Lake, stored_tables
from penstock.pipeline.schemas import bronze_columns
from penstock.pipeline.sources.flv import FlvSource
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES

SCHEMAS = ("bronze", "silver", "rollup", "gold")


def register_tables(spark: SparkSession, lake: Lake) -> None:
    """Make, or make anew, the schemas and the views of all tables."""
    lake.create()
    for schema in SCHEMAS:
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for table in stored_tables():
        spark.sql(f"CREATE OR REPLACE VIEW {table} AS {_query(lake.storage, table)}")
    spark.sql(f"CREATE OR REPLACE VIEW silver.viewer_samples AS {_viewer_samples()}")


def register_recordings(spark: SparkSession, recordings: str) -> None:
    """Make silver.frames: every tag of every recording in a folder, by the source `flv`."""

    class Recordings(FlvSource):
        """The source `flv` on one folder: the catalogue of Spark hands no options to sources like it."""

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__({**options, "path": recordings})

        @classmethod
        def name(cls) -> str:
            return "penstock_recordings"

    spark.dataSource.register(Recordings)
    spark.sql("CREATE SCHEMA IF NOT EXISTS silver")
    spark.sql("DROP TABLE IF EXISTS silver.frames")
    spark.sql("CREATE TABLE silver.frames USING penstock_recordings")


def _query(storage: Storage, table: str) -> str:
    layer, _, name = table.partition(".")
    if layer == "gold":
        columns = [column.name for column in TABLES[table].columns]
        return f"SELECT {_list(columns)} FROM parquet.{_quoted(storage.address(f'gold/{name}'))}"  # noqa: S608
    if layer == "bronze":
        columns, folder = bronze_columns(name), f"bronze/kind={name}"
    else:
        partition = ["hour"] if TABLES[table].partition else []
        columns, folder = [*(column.name for column in TABLES[table].columns), *partition], f"{layer}/{name}"
    files, live = (_quoted(storage.address(path)) for path in (folder, f"_live/{table}"))
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


def _quoted(address: str) -> str:
    return f"`{address.replace('`', '``')}`"
