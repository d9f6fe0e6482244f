"""Boots: literal spans in, who is lost out."""

from pyspark.sql import SparkSession

from penstock.pipeline.transforms.boots import boot_spans, boots
from tests.pipeline.bronze_rows import SECOND, T0, boot_key_of, bronze, collected, fact


def test_a_boot_is_lost_when_a_newer_one_has_spoken_or_when_it_is_silent(spark: SparkSession) -> None:
    facts = [
        fact("server_started", 1, 0, server_id="a", boot_id="b1"),
        fact("limit_hit", 2, 100 * SECOND, server_id="a", boot_id="b1"),
        fact("server_started", 1, 95 * SECOND, server_id="a", boot_id="b2"),
        fact("server_started", 1, 10 * SECOND, server_id="c", boot_id="b1"),
        fact("server_started", 1, 9 * SECOND, server_id="d", boot_id="b1"),
        fact("limit_hit", 2, 9 * SECOND, server_id="d", boot_id="b1"),
    ]
    spans = boot_spans(bronze(spark, facts)).unionByName(boot_spans(bronze(spark, facts[:1])))

    def row(server_id: str, boot_id: str, first_s: int, last_s: int, *, is_lost: bool) -> tuple[object, ...]:
        times = T0 + first_s * SECOND, T0 + last_s * SECOND
        return (boot_key_of(server_id, boot_id), server_id, boot_id, *times, is_lost)

    assert collected(boots(spans, as_of_us=T0 + 100 * SECOND, silent_us=90 * SECOND)) == sorted(
        [
            row("a", "b1", 0, 100, is_lost=True),
            row("a", "b2", 95, 95, is_lost=False),
            row("c", "b1", 10, 10, is_lost=False),
            row("d", "b1", 9, 9, is_lost=True),
        ],
        key=repr,
    )
