"""Where tables lie, what their files hold, and which names are asked for."""

import pyarrow as pa
import pytest
from deltalake import Schema

from penstock.errors import LakeError
from penstock.facts import FACTS
from penstock.pipeline.lake.layout import (
    BRONZE,
    arrow_schema_of,
    file_schema_of,
    folder_of,
    has_hours,
    named_tables,
    order_of,
    partition_by,
    schema_of,
    stats_of,
    stored_as,
    stored_tables,
    time_of,
)
from penstock.pipeline.lake.tables import TABLES

STORED = stored_tables()


def test_every_kind_of_fact_is_a_part_of_one_table() -> None:
    assert {stored_as(f"bronze.{kind}") for kind in FACTS} == {BRONZE}
    assert stored_as("silver.viewer_samples") == BRONZE
    assert "silver.viewer_samples" not in STORED


def test_every_table_that_can_be_asked_for_is_stored_somewhere() -> None:
    assert {stored_as(name) for name in named_tables()} == set(STORED)


@pytest.mark.parametrize("name", ["gold.nothing", "bronze.nothing", "views"])
def test_unknown_tables_are_told_with_those_that_there_are(name: str) -> None:
    with pytest.raises(LakeError, match=rf"no table called {name}; there are bronze\.facts, .*silver\.views"):
        stored_as(name)


@pytest.mark.parametrize("name", STORED)
def test_folders_say_the_day_and_files_all_the_rest(name: str) -> None:
    places = partition_by(name)
    assert places == (["kind", "date"] if name == BRONZE else ["date"] if TABLES[name].partition else [])
    assert folder_of(name) == name.replace(".", "/")
    assert arrow_schema_of(name).names == [*file_schema_of(name).names, *places]
    assert schema_of(name).names == arrow_schema_of(name).names


@pytest.mark.parametrize("name", STORED)
def test_every_type_is_one_that_delta_has(name: str) -> None:
    assert pa.schema(Schema.from_arrow(arrow_schema_of(name))).names == arrow_schema_of(name).names


@pytest.mark.parametrize("name", STORED)
def test_statistics_are_few_and_tell_of_nobody(name: str) -> None:
    allowed = {"hour", "boot_key", "seq", "last_seen_at", "ended_at", "closed_at"}
    time = None if name == BRONZE else time_of(TABLES[name])
    assert set(stats_of(name)) <= allowed | {time}
    assert len(stats_of(name)) <= 4
    assert stats_of(name)[0] == "hour"


def test_tables_of_hours_say_them() -> None:
    assert [name for name in STORED if has_hours(name)] == [
        name for name in STORED if "hour" in file_schema_of(name).names
    ]
    assert has_hours("silver.views")
    assert not has_hours("gold.usage")


def test_rows_of_a_rollup_are_sorted_by_the_view_first() -> None:
    assert order_of(TABLES["rollup.view_minutes"]) == ("view_seq", "boot_key", "minute")
    assert order_of(TABLES["silver.views"]) == ("started_at", "view_id")


def test_a_kind_of_fact_shows_its_own_columns_and_no_others() -> None:
    names = schema_of("bronze.server_started").names
    assert names[-2:] == ["hour", "date"]
    assert "software_version" in names
    assert "view_id" not in names
