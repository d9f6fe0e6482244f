"""Columns that were asked of Java before: nothing is asked again, and nothing else is answered."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from penstock.pipeline import kept_columns

GIVING_UP = "m\nd\n"
"""How Py4J begins to tell Java that an object is of no use any more."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to Java."""
    sent: list[str] = []
    send = GatewayClient.send_command

    def note(self: GatewayClient, command: str, *rest: Any, **named: Any) -> Any:
        if not command.startswith(GIVING_UP):
            sent.append(command)
        return send(self, command, *rest, **named)

    monkeypatch.setattr(GatewayClient, "send_command", note)
    return sent


@pytest.fixture
def memory(spark: SparkSession) -> Any:
    return spark._jvm.functions._memory  # type: ignore[union-attr]


def wide(number: int) -> Column:
    """A column of several functions, operators, names, texts, numbers, and a window."""
    ranked = F.count("id").over(Window.partitionBy("word", "id").orderBy(F.desc("id")).rowsBetween(-5, 0))
    is_odd = (F.col("id") % 2 == 1) & F.col("word").isin("one", "three") & F.col("id").isNotNull()
    return F.struct(
        F.when(is_odd, F.concat_ws("-", "word", F.lit("odd"))).otherwise(F.lit(None)).alias("told"),
        (F.greatest("id", F.lit(number)) * ranked).cast("bigint").alias("number"),
    ).alias("made")


def words(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "one"), (2, "two"), (3, "three")], "id bigint, word string")


def test_what_was_made_before_is_not_asked_for_again(spark: SparkSession, asked: list[str]) -> None:
    rows = words(spark)
    first = rows.select(wide(2)).orderBy("made.number").collect()
    asked.clear()
    again = wide(2)
    assert asked == []
    assert rows.select(again).orderBy("made.number").collect() == first
    assert [tuple(row.made) for row in first] == [("one-odd", 2), (None, 2), ("three-odd", 3)]
    asked.clear()
    wide(7)
    assert asked != []


def test_numbers_that_are_equal_are_kept_apart_by_their_type(spark: SparkSession) -> None:
    row = spark.range(1).select(F.lit(1), F.lit(1.0), F.lit(True), F.lit("1"), F.lit(1 << 40)).collect()[0]
    assert [(type(value), value) for value in row] == [
        (int, 1),
        (float, 1.0),
        (bool, True),
        (str, "1"),
        (int, 1 << 40),
    ]


def test_what_is_drawn_is_drawn_each_time(spark: SparkSession) -> None:
    row = spark.range(1).select(F.rand(), F.rand(), F.uuid(), F.uuid()).collect()[0]
    assert (row[0] != row[1], row[2] != row[3]) == (True, True)


def test_columns_of_a_frame_are_made_of_that_frame(spark: SparkSession) -> None:
    left, right = words(spark), words(spark).where("id > 1")
    joined = left.join(F.broadcast(right), left["id"] == right["id"], "left")
    found = joined.select(left["id"], F.coalesce(right["word"], F.lit("none"))).orderBy(left["id"]).collect()
    assert [tuple(row) for row in found] == [(1, "none"), (2, "two"), (3, "three")]


def test_so_many_are_kept_and_no_more(spark: SparkSession, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_columns, "MAX_KEPT", 50)
    rows, sizes = words(spark), []
    for number in range(40):
        made = rows.select(wide(number)).collect()
        assert max(row.made.number for row in made) == max(3, number)
        sizes.append(len(memory._answers))
    assert max(sizes) <= 50


@pytest.mark.parametrize("build", [lambda: wide(3), lambda: F.expr("id + 1").alias("made")])
def test_threads_may_ask_the_same(spark: SparkSession, memory: Any, build: Callable[[], Column]) -> None:
    memory._answers = {}
    rows = words(spark)
    with ThreadPoolExecutor(8) as threads:
        columns = list(threads.map(lambda _: build(), range(32)))
        found = list(threads.map(lambda column: rows.select("id", column).orderBy("id").collect(), columns[:8]))
    assert found == [found[0]] * 8
