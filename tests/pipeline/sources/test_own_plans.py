"""Filters pushed into the format flv: each use of a DataFrame has its own, in whatever order and company it is used."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.registry import register_recordings
from penstock.pipeline.sources import own_plans, register_sources
from tests.pipeline.sources.recordings import make_numbered, manifest_row, write_manifest

ROWS = {"a": 1 + 30, "b": 1 + 50}
"""Of each stream: the metadata, and five frames and five sounds in each GOP."""
KEYS = {"a": 3, "b": 5}
FILTERS = {
    "true": 31 + 51,
    "stream = 'a'": 31,
    "stream = 'b'": 51,
    "is_key": 3 + 5,
    "kind = 'data'": 2,
    "dts_ms >= 120 and kind = 'video'": 13 + 23,
    "rand() >= 0": 31 + 51,
}


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    register_sources(spark)
    return spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for stream, gops in KEYS.items():
        make_numbered(folder / f"{stream}.flv", gops=gops)
    write_manifest(folder, [manifest_row(f"{stream}.flv", stream) for stream in KEYS])
    return folder


@pytest.fixture(params=["loaded", "table"])
def tags(request: pytest.FixtureRequest, spark: SparkSession, folder: Path) -> Iterator[DataFrame]:
    """The same DataFrame for every query of a test: by the format, and by the table that is made of it."""
    if request.param == "loaded":
        yield spark.read.format("flv").load(str(folder))
        return
    register_recordings(spark, str(folder))
    yield spark.table("silver.frames")
    spark.sql("DROP TABLE silver.frames")


def tasks_of(rows: DataFrame) -> int:
    return rows.rdd.getNumPartitions()


def pushing(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.format("flv").option("pushdown", "true").load(str(folder))


def test_filters_leave_out_files_without_being_asked_to(tags: DataFrame) -> None:
    assert (tasks_of(tags), tasks_of(tags.where("stream = 'a'")), tasks_of(tags)) == (2, 1, 2)


def test_no_query_of_a_dataframe_is_answered_by_the_filter_of_another(tags: DataFrame) -> None:
    for condition, count in FILTERS.items():
        assert (tags.where(condition).count(), tags.count()) == (count, 82), condition


@pytest.mark.parametrize("turn", [list, lambda names: list(reversed(list(names)))])
def test_each_place_of_one_query_has_its_own_filter(
    tags: DataFrame, turn: Callable[[dict[str, int]], list[str]]
) -> None:
    parts = [tags.where(condition) for condition in turn(FILTERS)]
    both = parts[0]
    for part in parts[1:]:
        both = both.union(part)

    assert both.count() == sum(FILTERS.values())


def test_a_join_with_itself_and_a_question_within_a_question(spark: SparkSession, tags: DataFrame) -> None:
    tags.createOrReplaceTempView("tags")

    joined = spark.sql(
        "SELECT count(*) FROM tags a JOIN tags b USING (tag_index) WHERE a.stream = 'a' AND b.stream = 'b'"
    )
    nested = spark.sql("SELECT count(*) FROM tags WHERE dts_ms > (SELECT max(dts_ms) FROM tags WHERE stream = 'a')")

    assert joined.first() == (31,)
    assert nested.first() == (20,)


def test_queries_of_one_dataframe_at_the_same_time(tags: DataFrame) -> None:
    asked = random.Random(7).choices(list(FILTERS), k=40)

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda condition: tags.where(condition).count(), asked))

    assert counts == [FILTERS[condition] for condition in asked]


def test_a_kept_dataframe_and_a_filter_on_it(tags: DataFrame) -> None:
    kept = tags.where("stream = 'b'").cache()
    try:
        assert (kept.count(), tags.count(), kept.where("is_key").count()) == (51, 82, 5)
        assert tags.where("stream = 'b'").count() == 51
    finally:
        kept.unpersist()


def test_the_rule_is_there_once_however_often_it_is_asked_for(spark: SparkSession) -> None:
    assert own_plans.have_own_plans(spark)
    assert own_plans.have_own_plans(spark.newSession())
    session = spark._jsparkSession
    rules = session.extensions().buildOptimizerRules(session)
    names = [rules.apply(place).getClass().getName() for place in range(rules.size())]

    assert names.count(own_plans.RULE) == 1


def test_a_second_session_knows_the_sources_and_shares_no_plan(spark: SparkSession, folder: Path) -> None:
    second = spark.newSession()
    register_sources(second)
    register_recordings(second, str(folder))
    try:
        counts = [
            session.read.format("flv").load(str(folder)).where(condition).count()
            for session, condition in ((second, "is_key"), (spark, "true"), (second, "true"), (spark, "is_key"))
        ]
        assert counts == [8, 82, 82, 8]
        assert second.table("silver.frames").where("is_key").count() == 8
    finally:
        second.sql("DROP TABLE silver.frames")


def test_without_the_rule_filters_are_not_pushed(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as another_spark:
        another_spark.setattr(own_plans, "have_own_plans", lambda _: False)
        register_sources(spark)
    try:
        tags = spark.read.format("flv").load(str(folder))
        tasks, asked_for = (tasks_of(each.where("stream = 'a'")) for each in (tags, pushing(spark, folder)))
        count = tags.where("stream = 'a'").count()
    finally:
        register_sources(spark)

    assert (tasks, asked_for, count) == (2, 1, 31)


def test_a_spark_that_does_not_take_the_rule_is_told_apart(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_plans, "RULE", "penstock.OfAnotherName")

    assert not own_plans.have_own_plans(spark)
