"""Formats in more than one session, and the recordings as a table."""

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline.queries.views import register_recordings
from penstock.pipeline.sources import register_sources
from tests.pipeline.sources.recordings import make_numbered, manifest_row, write_manifest


def test_every_session_may_register_the_formats_any_number_of_times(spark: SparkSession, tmp_path: Path) -> None:
    make_numbered(tmp_path / "a.flv", gops=1)
    second = spark.newSession()
    for session in (spark, second, spark, second):
        register_sources(session)
        assert session.read.format("flv").load(str(tmp_path)).count() == 1 + 10


def test_the_table_of_recordings_answers_any_number_of_questions(spark: SparkSession, tmp_path: Path) -> None:
    for stream, gops in (("a", 3), ("b", 5)):
        make_numbered(tmp_path / f"{stream}.flv", gops=gops)
    write_manifest(tmp_path, [manifest_row("a.flv", "a"), manifest_row("b.flv", "b")])
    register_recordings(spark, str(tmp_path))
    tags = spark.table("silver.frames")
    joined = "SELECT count(*) FROM {t} a JOIN {t} b USING (tag_index) WHERE a.stream = 'a' AND b.stream = 'b'"
    try:
        told = [tags.where(condition).count() for condition in ("stream = 'a'", "true", "is_key", "stream = 'b'")]
        assert told == [31, 82, 8, 51]
        assert spark.sql(joined, t=tags).first() == (31,)
        # A later query of the table sees a file that is new.
        make_numbered(tmp_path / "c.flv", gops=1)
        assert spark.table("silver.frames").count() == 82 + 11
    finally:
        spark.sql("DROP TABLE silver.frames")
