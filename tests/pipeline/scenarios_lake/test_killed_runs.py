"""Runs that are killed: readers notice nothing, and the next run makes up for it.

The same facts make the same bytes of gold, in whatever order, portions and splits they are carried. All who look at the
killed runs are in this module, since modules may run in processes of their own.
"""

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline.schemas import table_schema
from penstock.pipeline.tables import TABLES
from tests.pipeline.scenarios_lake.conftest import LAST_RUN_US, SMALL_SPLITS, Killed, Landed
from tests.pipeline.scenarios_lake.gold_reader import GoldReader, sums
from tests.pipeline.scenarios_lake.runs import DataFolder, conf
from tests.pipeline.scenarios_lake.witness import bronze_rows

OTHERWISE = {"spark.sql.shuffle.partitions": "5", "spark.sql.adaptive.enabled": "true"}
OF_GOLD = {"audience", "data_quality", "incidents", "recordings", "stream_health", "usage", "view_quality"}


def test_a_reader_gets_no_error_and_nothing_that_was_never_true(killed: Killed) -> None:
    reader = killed.reader
    assert reader.failures == []
    assert reader.looks > 10
    changed = {name for name, content in killed.after.items() if killed.before.get(name) != content}
    assert len(changed) > 5
    for name, seen in reader.seen.items():
        assert seen <= {killed.before.get(name), killed.after[name]}, name
    # A file that came only then holds nothing in the eyes of who asked before.
    contents = {name: {killed.before.get(name, (0, 0)), after} for name, after in killed.after.items()}
    for table, seen in reader.seen_over.items():
        assert seen <= sums(held for name, held in contents.items() if Path(name).parents[1].name == table), table


def test_whatever_point_a_run_dies_at_the_next_one_has_all_of_it_to_do(killed: Killed) -> None:
    """Silver that was changed asks for nothing more: by then all views whose server was lost have ended."""
    points = [point for point, _, _ in killed.notes]
    # Each is of a run of its own, and steps go side by side: which point comes as which of a run's is not settled.
    assert points[:2] == ["bronze-written", "bronze-committed"]
    assert set(points[2:]) == {"silver-written", "silver-committed", "gold-staged", "gold-replaced"}
    assert points[-1] == "gold-replaced"
    (_, before, _), (_, facts, planned), *later = killed.notes
    assert before < facts
    assert planned
    for point, held, plan in later:
        assert (point, held, plan.joined(planned.as_hours())) == (point, facts, plan)


def test_the_run_after_loses_nothing_and_doubles_nothing(
    killed: Killed, undisturbed: DataFolder, landed: Landed
) -> None:
    snapshot, storage = killed.data.lake.snapshot(), killed.data.lake.storage
    assert set(snapshot.landed_at_us) == set(landed.names)
    assert bronze_rows(snapshot) == bronze_rows(undisturbed.lake.snapshot())
    assert killed.data.gold() == undisturbed.gold()
    assert not killed.data.cycles(LAST_RUN_US).has_work()
    # Views in SQL go by these lists.
    for table in snapshot.tables:
        listed = [file.path.rpartition("/")[2] for file in snapshot.files(table)]
        assert storage.read(f"_live/{table}").decode().split() == listed


def test_lists_for_views_in_sql_are_finished_by_the_next_writer(undisturbed: DataFolder) -> None:
    """A writer that is killed right after a commit has not come to write them."""
    storage = undisturbed.lake.storage
    written = storage.read("_live/silver.views")
    storage.put("_live/silver.views", b"swept.parquet\n")
    storage.put("_live/_number", b"1\n")
    with undisturbed.cycles(LAST_RUN_US).lock("test"):
        assert storage.read("_live/silver.views") == written


def test_a_file_of_gold_that_was_listed_can_be_opened_though_its_day_has_no_rows_any_more(
    undisturbed: DataFolder, tmp_path: Path
) -> None:
    data = undisturbed.copy(tmp_path / "data")
    usage = TABLES["gold.usage"]
    none = data.spark.createDataFrame([], table_schema(usage).add("date", "string"))
    transaction = data.lake.begin(data.lake.snapshot(), "gold", LAST_RUN_US)
    transaction.replace_gold(usage, none, ["2026-11-14", "2026-11-13"])
    transaction.publish_gold()
    looked = GoldReader(data.folder / "lake").look()
    rows = {name.split("/")[-2]: count for name, (count, _) in looked.items() if "/usage/" in name}
    assert rows == {"date=2026-11-14": 0, "date=2026-11-15": 5}


def test_gold_has_the_same_bytes_by_one_run_by_several_and_by_a_rebuild(
    spark: SparkSession, undisturbed: DataFolder, killed: Killed
) -> None:
    wanted = undisturbed.gold()
    assert {name.partition("/")[0] for name in wanted} == OF_GOLD
    assert all(spark.conf.get(name) != value for name, value in {**SMALL_SPLITS, **OTHERWISE}.items())
    assert killed.data.gold() == wanted
    with conf(spark, OTHERWISE):
        killed.data.cycles(LAST_RUN_US).rebuild()
    assert killed.data.gold() == wanted
