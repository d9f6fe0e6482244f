"""Tables of the lake as Delta's own jars read them, and a lake on an object store as Spark writes it.

`make smoke-delta` runs this, and `make test` does not: the jars come from Maven Central. Where they cannot be had, all
of it is skipped.
"""

import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline import register, table
from penstock.pipeline.engine.session import SparkSettings, close_session, open_session
from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE, folder_of, has_hours, partition_by, stored_tables
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.conftest import FOR_SMALL_DATA
from tests.pipeline.lake.lake_rows import put_hours, rows_of

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
HADOOP = "org.apache.hadoop:hadoop-aws:3.5.0"
# What it needs of the library for S3, in place of all 690 MB of that.
AWS_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client")
AWS_VERSION = "2.35.4"
JARS = ",".join((DELTA, HADOOP, *(f"software.amazon.awssdk:{part}:{AWS_VERSION}" for part in AWS_PARTS)))
BUCKET = "penstock"
DAY = "2026-11-15"
HOURS = [f"{DAY}T{hour}" for hour in (19, 20, 21)]
HOUR_NUMBER = 498_548
"""2026-11-15T20, in hours since 1970."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An object store."""
    started = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    address = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", address)
        environment.setenv("AWS_ACCESS_KEY_ID", "somebody")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        environment.setenv("AWS_REGION", "us-east-1")
        urllib.request.urlopen(urllib.request.Request(f"{address}/{BUCKET}", method="PUT")).close()
        yield address
    started.stop()


@pytest.fixture(scope="module")
def spark(server: str) -> Iterator[SparkSession]:
    """A session with Delta's jars, and with Hadoop's for S3."""
    conf = {
        **FOR_SMALL_DATA,
        # Delta reads the log by a job of its own, of 50 tasks by default.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.jars.packages": JARS,
        "spark.jars.excludes": "software.amazon.awssdk:bundle",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.hadoop.fs.s3a.endpoint": server,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    try:
        session = open_session(SparkSettings(cores=2, is_short_lived=True, conf=conf))
    except PySparkException as error:
        pytest.skip(f"the jars {JARS} cannot be had: {error}")
    yield session
    close_session(session)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / "lake"))


def put_rows(lake: Lake, name: str) -> Pinned:
    """Some rows of a table: three hours or a day of it."""
    if name == BRONZE:
        return put_hours(lake, name, {hour: rows_of(name, {"seq": 1}) for hour in HOURS}, kind="play_started")
    if has_hours(name):
        return put_hours(lake, name, {hour: rows_of(name, {}) for hour in HOURS})
    day = DAY if partition_by(name) else ""
    return lake.put_days(name, lake.table(name).pin_or_create(), {day: rows_of(name, {}, {})})


def by_delta(spark: SparkSession, lake: Lake, name: str, version: int | None = None) -> DataFrame:
    reader = spark.read.format("delta")
    reader = reader if version is None else reader.option("versionAsOf", version)
    return reader.load(lake.storage.address(folder_of(name)))


def counted(rows: DataFrame, columns: list[str]) -> Counter[tuple[Any, ...]]:
    """Each row, as often as it is there."""
    return Counter(tuple(row) for row in rows.select(*columns).collect())


@pytest.mark.parametrize("name", stored_tables())
def test_every_table_has_the_same_columns_and_rows(spark: SparkSession, lake: Lake, name: str) -> None:
    put_rows(lake, name)
    ours, theirs = table(spark, name, lake=lake.storage.root), by_delta(spark, lake, name)
    assert {field.name: field.dataType for field in theirs.schema} == {
        field.name: field.dataType for field in ours.schema
    }
    found = counted(theirs, ours.columns)
    assert found == counted(ours, ours.columns)
    assert found.total() > 1


def test_versions_are_the_same_after_compaction_checkpoints_and_vacuum(spark: SparkSession, lake: Lake) -> None:
    name = "silver.views"
    for number in range(21):
        put_hours(lake, name, {HOURS[number % 3]: rows_of(name, {"view_id": f"{number}"})})
    pinned = lake.pin(name)
    assert pinned is not None
    lake.table(name).compact(pinned, {"date": DAY}, 10**9)
    lake.table(name).vacuum()
    for version in (None, 5, 21):
        ours = table(spark, name, lake=lake.storage.root, version=version)
        assert counted(by_delta(spark, lake, name, version), ["view_id", "hour"]) == counted(ours, ["view_id", "hour"])
    assert by_delta(spark, lake, name).where(f"hour = '{HOURS[0]}'").count() == 7


def test_a_lake_on_an_object_store_is_written_and_read_by_spark(spark: SparkSession) -> None:
    lake, name = Lake(Storage(f"s3a://{BUCKET}/lake")), "silver.views"
    pinned = put_rows(lake, name)
    rows = spark.createDataFrame(rows_of(name, {"view_id": "new"}).drop_columns(["hour"]))
    lake.replace_hours(name, pinned, rows.withColumn("hour", F.lit(HOUR_NUMBER)), [HOURS[1]])
    expected = {("-", HOURS[0]): 1, ("new", HOURS[1]): 1, ("-", HOURS[2]): 1}
    ours = table(spark, name, lake=lake.storage.root)
    assert counted(ours, ["view_id", "hour"]) == counted(by_delta(spark, lake, name), ["view_id", "hour"]) == expected


def test_views_of_a_lake_on_an_object_store_are_registered(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(Storage(f"s3a://{BUCKET}/registered"))
    put_rows(lake, "silver.views")
    register(spark, tmp_path, lake=lake.storage.root)
    assert spark.table("silver.views").count() == 3
    assert spark.table("gold.audience").count() == 0
