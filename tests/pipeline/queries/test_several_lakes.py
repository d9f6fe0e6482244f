"""Views in one session over one lake after another."""

import shutil
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import file_schema_of
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.queries.views import LakeViews


def lake_with_usage(folder: Path, app: str) -> Lake:
    """A lake whose gold.usage has one row and one version."""
    lake, schema = Lake(Storage(folder / "lake")), file_schema_of("gold.usage")
    row = {field.name: None for field in schema} | {"app": app}
    pinned = lake.table("gold.usage").pin_or_create()
    lake.put_days("gold.usage", pinned, {"2026-11-15": pa.Table.from_pylist([row], schema)})
    return lake


def apps(spark: SparkSession) -> list[str]:
    return [row.app for row in spark.sql("SELECT app FROM gold.usage").collect()]


def test_a_session_that_knew_another_lake_sees_the_one_whose_views_were_made_last(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        lake_with_usage(tmp_path / name, app=name)
    for name in ("first", "second", "first"):
        LakeViews(spark, Lake(Storage(tmp_path / name / "lake"))).refresh_for("gold.usage")
        assert apps(spark) == [name]


def test_a_lake_that_was_made_anew_in_the_same_place_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    views = LakeViews(spark, lake_with_usage(tmp_path, app="before"))
    views.refresh_for("gold.usage")
    assert apps(spark) == ["before"]
    shutil.rmtree(tmp_path / "lake")
    lake_with_usage(tmp_path, app="after")
    views.refresh_for("gold.usage")
    assert apps(spark) == ["after"]
