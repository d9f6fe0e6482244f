"""One Spark session for all tests of the pipeline in one process, and one cluster."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.engine.session import SparkSettings, open_session
from tests.support.spark_cluster import SparkCluster, spark_cluster

FOR_SMALL_DATA = {
    # Generating, compiling and adapting plans costs several times what running them on a few rows does. Sessions with
    # the settings of the product run in the tests of `up`, of the cluster and of the commands.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    # Nor are a few rows worth a task for each of several partitions.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Real Spark on two cores, tuned to start fast. Tests share it: a setting that is changed is put back."""
    session = open_session(SparkSettings(cores=2, is_short_lived=True, conf=FOR_SMALL_DATA))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A real cluster of two workers, for drivers in processes of their own: see `tests/support/spark_cluster.py`."""
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started
