"""Spark on more than one process: the package reaches the workers, and a lost worker costs time and no rows."""

import time
from pathlib import Path

from tests.support.processes import POLL_S
from tests.support.spark_cluster import READY_DEADLINE_S, SparkCluster

IMPORT_ON_WORKERS = """
    spark = open_session(SETTINGS)
    ship_package(spark)
    ship_package(spark)

    def places(batches):
        import pyarrow
        from penstock.media import flv
        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"place": [flv.__file__]})

    found = spark.range(0, 4, 1, 4).mapInArrow(places, "place string").distinct().collect()
    print(len(spark.sparkContext.listFiles), {row.place.partition(".zip/")[2] for row in found})
"""

SUM_SLOWLY = """
    import time
    from pathlib import Path

    spark = open_session()
    folder = Path(sys.argv[1])

    def squares(batches):
        import pyarrow.compute
        from pyspark import TaskContext
        (folder / f"task-{TaskContext.get().taskAttemptId()}").touch()
        for batch in batches:
            time.sleep(0.5)
            yield pyarrow.RecordBatch.from_arrays([pyarrow.compute.power(batch.column(0), 2)], ["square"])

    rows = spark.range(0, 1000, 1, 10).mapInArrow(squares, "square long")
    total = rows.selectExpr("sum(square)").first()[0]
    (folder / "answer").write_text(f"{total} {spark.conf.get('spark.sql.session.timeZone')}")
"""


def test_workers_import_the_package_that_was_shipped_to_them(cluster: SparkCluster) -> None:
    printed = cluster.run_driver(IMPORT_ON_WORKERS)
    assert printed == "1 {'penstock/media/flv.py'}\n"


def test_a_job_under_spark_submit_survives_the_loss_of_a_worker(cluster: SparkCluster, tmp_path: Path) -> None:
    with cluster.driver(SUM_SLOWLY, [str(tmp_path)], is_submitted=True) as driver:
        give_up_at = time.monotonic() + READY_DEADLINE_S
        while len(started := list(tmp_path.glob("task-*"))) < 3 and time.monotonic() < give_up_at:
            time.sleep(POLL_S)
        cluster.kill_worker()
        assert 3 <= len(started) < 10, driver.log_text()
        assert driver.wait_for_exit(READY_DEADLINE_S) == 0, driver.log_text()
    assert (tmp_path / "answer").read_text() == "332833500 UTC"
    assert len(list(tmp_path.glob("task-*"))) > 10
