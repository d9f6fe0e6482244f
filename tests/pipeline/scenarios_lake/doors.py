"""Rows of a table by every door that a reader may come through, and by the log alone. All in one form.

`log_rows` is what the doors are judged by: it takes the log entries one after the other and opens the files that are
left, with nothing of the pipeline and nothing of a library for Delta tables.
"""

import io
import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from penstock.cli import main
from penstock.pipeline import table
from penstock.pipeline.lake.layout import arrow_schema_of, folder_of
from penstock.pipeline.queries.answers import plain

SAMPLES = "silver.viewer_samples"
BY_SPARK = ("view", "table()")
"""The doors that know parts of stored tables by names of their own."""
Rows = list[tuple[Any, ...]]
Door = Callable[[str], pa.Table]


def log_rows(data: Path, name: str) -> pa.Table:
    """Rows of a stored table, as the entries of its log have it."""
    folder = data / "lake" / folder_of(name)
    live: dict[str, Mapping[str, str]] = {}
    for entry in sorted((folder / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                live.pop(action["remove"]["path"])
        for action in actions:
            if "add" in action:
                live[action["add"]["path"]] = action["add"]["partitionValues"]
    schema = arrow_schema_of(name)
    parts = [schema.empty_table()]
    for path, partition in live.items():
        rows = pq.ParquetFile(folder / unquote(path)).read()
        for column, value in partition.items():
            rows = rows.append_column(column, pa.array([value] * rows.num_rows, pa.string()))
        parts.append(_in_form(rows, schema))
    return pa.concat_tables(parts)


def doors(spark: SparkSession, data: Path) -> dict[str, Door]:
    """Each door by its name. Views have to be registered, and a service for `sql` has to be there."""
    lake = data / "lake"

    def by_duckdb(name: str) -> pa.Table:
        with duckdb.connect() as connection:
            connection.execute("SET timezone = 'UTC'")
            connection.register("asked", DeltaTable(lake / folder_of(name)).to_pyarrow_dataset())
            return connection.sql("SELECT * FROM asked").to_arrow_table()

    return {
        "view": lambda name: spark.table(name).toArrow(),
        "table()": lambda name: table(spark, name, data).toArrow(),
        "DuckDB": by_duckdb,
        "Polars": lambda name: pl.read_delta(str(lake / folder_of(name))).to_arrow(),
    }


def part_of(facts: pa.Table, name: str) -> pa.Table:
    """What a table shows that is a part of all facts."""
    kind = "viewer_sample" if name == SAMPLES else name.removeprefix("bronze.")
    rows = facts.filter(pc.field("kind") == kind)
    return rows.append_column("at", rows["at_us"].cast(pa.timestamp("us", "UTC"))) if name == SAMPLES else rows


def rows_of(found: pa.Table, name: str) -> Rows:
    """Rows in one order and one form, whoever has read them."""
    held = _in_form(found, arrow_schema_of(name))
    return sorted(zip(*(column.to_pylist() for column in held.columns), strict=True), key=repr)


def sql_rows(data: Path, query: str) -> list[dict[str, Any]]:
    """What `penstock pipeline sql` prints, in one order."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(["pipeline", "sql", query, "--data", str(data), "--format", "json", "--limit", "1000000"])
    assert status == 0, printed.getvalue()
    return sorted(json.loads(printed.getvalue()), key=repr)


def as_printed(found: pa.Table) -> list[dict[str, Any]]:
    """Rows as `sql` prints them, in one order."""
    columns = {name: [plain(value) for value in found[name].to_pylist()] for name in found.column_names}
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return sorted(json.loads(json.dumps(list(rows))), key=repr)


def _in_form(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """These columns in these types; one that a file does not have is null."""
    columns = [
        found[field.name].cast(field.type) if field.name in found.column_names else pa.nulls(found.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
