"""The same facts make the same bytes of gold, in whatever order, portions and splits they are carried."""

from pyspark.sql import SparkSession

from tests.pipeline.scenarios_lake.conftest import LAST_RUN_US, SMALL_SPLITS, Killed
from tests.pipeline.scenarios_lake.runs import DataFolder, conf

OTHERWISE = {"spark.sql.shuffle.partitions": "5", "spark.sql.adaptive.enabled": "true"}
TABLES = {"audience", "data_quality", "incidents", "recordings", "stream_health", "usage", "view_quality"}


def test_gold_has_the_same_bytes_by_one_run_by_several_and_by_a_rebuild(
    spark: SparkSession, undisturbed: DataFolder, killed: Killed
) -> None:
    wanted = undisturbed.gold()
    assert {name.partition("/")[0] for name in wanted} == TABLES
    assert all(spark.conf.get(name) != value for name, value in {**SMALL_SPLITS, **OTHERWISE}.items())
    assert killed.data.gold() == wanted
    with conf(spark, OTHERWISE):
        killed.data.cycles(LAST_RUN_US).rebuild()
    assert killed.data.gold() == wanted
