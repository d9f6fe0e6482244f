"""The contract of the lake in three places: dataclasses and column lists, Spark's schemas, and the page about them."""

import re
from collections.abc import Iterable

import pytest
from pyspark.sql.types import DataType, StructField

from penstock.facts import FACTS, Envelope
from penstock.pipeline.lake.schemas import (
    ADDED_FIELDS,
    bronze_columns,
    bronze_schema,
    fields_of,
    landing_schema,
    spark_type,
    table_schema,
)
from penstock.pipeline.lake.tables import TABLES, Table
from tests.pipeline.lake import tables_page
from tests.pipeline.lake.tables_page import sections
from tests.test_docs import in_code, marked, table_rows, text_of

PAGE = text_of(tables_page.PAGE)
SECTION = re.compile(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)

SHARED_FIELDS = re.compile(r"\bShared:\s+([^.]+)\.")

Fields = dict[str, str]
"""Names to types; a type ends with a question mark if it may be null."""


def fields_told() -> dict[str, Fields]:
    """Of each kind of fact on the page its fields, those it shares with others included."""
    found: dict[str, Fields] = {}
    for title, text in SECTION.findall(marked(PAGE, "fact fields")):
        rows = table_rows(text)
        assert [row for row in rows if len(row) != 3 or not row[2]] == [], title
        shared = [name for names in SHARED_FIELDS.findall(text) for name in in_code(names)]
        found[(in_code(title) or [title])[0]] = {
            **{name: found["Shared fields"][name] for name in shared},
            **{name: kind for names, kind, _ in rows for name in in_code(names)},
        }
    return found


def named(kind: DataType) -> str:
    return kind.simpleString()


def types_of(fields: Iterable[StructField]) -> Fields:
    return {field.name: named(field.dataType) + ("?" if field.nullable else "") for field in fields}


def test_the_page_lists_every_field_of_every_fact() -> None:
    kinds: dict[str, type] = {"The envelope": Envelope, **FACTS}
    told = fields_told()
    assert {name for kind, fields in told.items() if kind in FACTS for name in fields} >= set(told.pop("Shared fields"))
    assert told == {
        **{name: types_of(fields_of(kind)) for name, kind in kinds.items()},
        "What bronze adds": types_of(ADDED_FIELDS),
    }


@pytest.mark.parametrize(("name", "section"), sections().items())
def test_the_page_says_of_every_table_what_its_columns_say(name: str, section: str) -> None:
    assert marked(PAGE, name) == section, "python -m tests.pipeline.lake.tables_page writes it anew"


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.full_name)
def test_every_column_says_what_it_means_without_looking_at_another(table: Table) -> None:
    vague = {"", "likewise", "how many", "the same", "so far"}
    assert [column.name for column in table.columns if column.meaning in vague] == []


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
