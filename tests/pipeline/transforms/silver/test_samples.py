"""Viewer samples as a table."""

from pyspark.sql import SparkSession

from penstock.pipeline.transforms.silver.samples import viewer_samples
from tests.pipeline.bronze_rows import SECOND, assert_is_table, boot_key_of, bronze, clock, collected, fact


def test_a_sample_has_the_names_and_types_of_the_table(spark: SparkSession) -> None:
    sample = fact("viewer_sample", 5, SECOND, view_seq=1, watched_us=SECOND, sent_bytes=70, rtt_us=300, lag_ms=None)
    frame = viewer_samples(bronze(spark, [sample]))
    assert_is_table(frame, "silver.viewer_samples")
    assert collected(frame) == [
        (
            *("a-b1-5", "a", "b1", "a-b1-1", boot_key_of("a", "b1"), 1, "live", "x", clock("20:00:01")),
            *(SECOND, 70, None, 0, None, 0, 0, None, 300, None),
        )
    ]
