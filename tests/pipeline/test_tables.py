"""The contract of the lake in three places: dataclasses and column lists, Spark's schemas, and the page about them."""

import re

import pytest
from pyspark.sql.types import DataType

from penstock.facts import FACTS, Envelope
from penstock.pipeline.schemas import (
    ADDED_FIELDS,
    bronze_columns,
    bronze_schema,
    fields_of,
    landing_schema,
    spark_type,
    table_schema,
)
from penstock.pipeline.tables import TABLES, Table
from tests.test_docs import DOCS, in_code, marked, table_rows, text_of

PAGE = text_of(DOCS / "5-tables.md")
SECTION = re.compile(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)

Row = tuple[str, str, str]
"""Name, type, and yes if it may be null."""


def told(section: str) -> dict[str, list[Row]]:
    """Of each table in a section of the page its rows; every one has a meaning."""
    found = {}
    for title, text in SECTION.findall(marked(PAGE, section)):
        rows = table_rows(text)
        assert [row for row in rows if len(row) != 4 or not row[3]] == [], title
        found[(in_code(title) or [title])[0]] = [(in_code(name)[0], kind, null) for name, kind, null, _ in rows]
    return found


def named(kind: DataType) -> str:
    return kind.simpleString()


def yes(condition: bool) -> str:
    return "yes" if condition else "no"


def test_the_page_lists_every_field_of_every_fact() -> None:
    kinds: dict[str, type] = {"The envelope": Envelope, **FACTS}
    expected = {
        name: [(field.name, named(field.dataType), yes(field.nullable)) for field in fields_of(kind)]
        for name, kind in kinds.items()
    }
    added = [(field.name, named(field.dataType), yes(field.nullable)) for field in ADDED_FIELDS]
    assert told("fact fields") == {**expected, "What bronze adds": added}


@pytest.mark.parametrize("layer", ["silver", "rollup", "gold"])
def test_the_page_lists_every_column_of_every_table(layer: str) -> None:
    assert told(f"{layer} tables") == {
        table.full_name: [(column.name, column.type, yes(not column.required)) for column in table.columns]
        for table in TABLES.values()
        if table.layer == layer
    }


def test_the_page_tells_grain_and_key_of_every_table() -> None:
    for table in TABLES.values():
        key = ", ".join(f"`{name}`" for name in table.key)
        assert f"### `{table.full_name}`\n\nGrain: {table.grain}. Key: {key}. Stored: " in PAGE


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.full_name)
def test_a_schema_has_the_columns_of_its_table_and_the_key_is_among_them(table: Table) -> None:
    schema = table_schema(table)
    assert [(field.name, named(field.dataType), field.nullable) for field in schema] == [
        (column.name, column.type, not column.required) for column in table.columns
    ]
    assert set(table.key) <= set(schema.fieldNames())
    assert len(set(schema.fieldNames())) == len(schema)


@pytest.mark.parametrize("kind", FACTS)
def test_bronze_has_room_for_every_field_of_a_fact(kind: str) -> None:
    stored = {field.name: field.dataType for field in bronze_schema()}
    landed = {field.name: field.dataType for field in landing_schema()}
    for field in (*fields_of(Envelope), *fields_of(FACTS[kind])):
        assert landed[field.name] == field.dataType
        assert field.name == "kind" or stored[field.name] == field.dataType
    assert set(bronze_columns(kind)) - {"hour"} <= set(stored)


def test_a_field_that_spark_has_no_type_for_is_refused() -> None:
    with pytest.raises(TypeError, match="no fields of type"):
        spark_type(list[int])


def test_the_contract_of_the_tools_is_kept() -> None:
    relied_on = {
        "silver.views": "view_id server_id boot_id app stream protocol started_at last_seen_at ended_at is_open "
        "watch_seconds bytes_sent startup_ms skips end_reason",
        "gold.audience": "app stream minute viewers_peak viewers_avg watch_seconds",
        "gold.usage": "app stream day ingress_bytes egress_bytes viewer_minutes",
        "gold.stream_health": "app stream minute bitrate_bps fps keyframe_interval_ms av_skew_ms verdict",
        "gold.incidents": "app stream kind started_at ended_at evidence",
        "gold.recordings": "path app stream started_at duration_ms bytes video audio keyframes status",
    }
    for table, names in relied_on.items():
        assert set(names.split()) <= {column.name for column in TABLES[table].columns}, table
