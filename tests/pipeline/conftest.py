"""One Spark session for all tests of the pipeline."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Real Spark on two cores, tuned to start fast."""
    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    session = open_session("local[2]", cores=2, settings=settings)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
