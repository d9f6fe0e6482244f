"""Buckets: in Python and in Spark alike, and near what they stand for."""

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.transforms.histograms import (
    BUCKETS,
    MAX_VALUE,
    bucket_column,
    bucket_of,
    middle_column,
    middle_of,
)

EDGES = sorted({max(0, (1 << bits) + off) for bits in range(38) for off in (-2, -1, 0, 1, 2)} | {-5, 10**18})


@given(st.integers(0, MAX_VALUE))
def test_the_middle_of_a_bucket_is_within_two_percent_of_its_values(value: int) -> None:
    assert abs(middle_of(bucket_of(value)) - value) * 100 <= 2 * value


@given(st.integers(0, MAX_VALUE - 1))
def test_a_larger_value_never_falls_into_a_lower_bucket(value: int) -> None:
    assert bucket_of(value) <= bucket_of(value + 1) <= bucket_of(value) + 1


def test_buckets_are_numbered_without_holes_up_to_the_last() -> None:
    assert bucket_of(-1) == 0
    assert [bucket_of(middle_of(bucket)) for bucket in range(BUCKETS)] == list(range(BUCKETS))
    assert bucket_of(10 * MAX_VALUE) == BUCKETS - 1


def test_spark_agrees_with_python_at_every_edge(spark: SparkSession) -> None:
    values = spark.createDataFrame([(value,) for value in [*EDGES, None]], "value bigint")
    buckets = values.select("value", bucket_column(F.col("value")).alias("bucket"))
    found = buckets.select("value", "bucket", middle_column(F.col("bucket"))).collect()
    wanted = [(value, bucket_of(value), middle_of(bucket_of(value))) for value in EDGES]
    assert [tuple(row) for row in found] == [*wanted, (None, None, None)]
