"""Spark on more than one process: a whole cycle and the sources, with the package that was shipped to the workers.

The archive job has its own test there, which kills a worker in the midst of tasks.
"""

import json
import time
from pathlib import Path

import pytest

from tests.pipeline.landing_place import FOLDER, NOON_US, SECOND_US, fact
from tests.pipeline.sources.recordings import make_numbered
from tests.support.processes import POLL_S
from tests.support.spark_cluster import DRIVER_DEADLINE_S, READY_DEADLINE_S, SparkCluster

CYCLE_AND_SOURCES = """
    import json
    from pathlib import Path
    from penstock.pipeline import register
    from penstock.pipeline.ops.cycle import Cycles
    from penstock.pipeline.progress import progress_for
    from penstock.pipeline.settings import PipelineSettings

    data = Path(sys.argv[1])
    spark = open_session()
    folders = [str(data / name) for name in ("lake", "facts", "recordings")]
    cycles = Cycles(
        PipelineSettings(str(data), *folders), progress_for(is_json=True), now_us=lambda: int(sys.argv[2]), spark=spark
    )
    cycles.run_cycle()
    cycles.close()
    register(spark, data)

    def places_of_package(batches):
        import pyarrow
        from penstock.media import flv
        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"place": [flv.__file__]})

    def rows(query):
        return [list(row) for row in spark.sql(query).collect()]

    flv = spark.read.format("flv").load(folders[2])
    places = spark.range(0, 4, 1, 4).mapInArrow(places_of_package, "place string").distinct().collect()
    (data / "answers").write_text(json.dumps({
        "shipped": len(spark.sparkContext.listFiles),
        "imported": sorted({row.place.partition(".zip/")[2] for row in places}),
        "zone": spark.conf.get("spark.sql.session.timeZone"),
        "tags": flv.where("kind = 'video'").count(),
        "frames": rows("select count(*) from silver.frames where kind = 'video' and is_key"),
        "views": rows("select conn_id, watch_seconds from silver.views order by conn_id"),
        "watched": rows("select stream, sum(watch_seconds) from gold.audience group by stream order by stream"),
        "usage": rows("select stream, egress_bytes from gold.usage order by stream"),
    }))
"""
VIEWS = 8
WATCHED_S = 40
NOW_US = NOON_US + 600 * SECOND_US


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with the facts of a few views, in files of a view each, and two recordings."""
    for folder in ("recordings", f"facts/{FOLDER}"):
        (tmp_path / folder).mkdir(parents=True)
    make_numbered(tmp_path / "recordings/a.flv", gops=2)
    make_numbered(tmp_path / "recordings/b.flv", gops=3)
    for view in range(VIEWS):
        boot, place = f"b{view}", {"conn_id": f"c{view}", "stream": f"cam-{view % 2}"}
        seen, end_us = {"view_id": f"edge-1-{boot}-2"}, NOON_US + WATCHED_S * SECOND_US
        facts = [
            fact(1, "server_started", boot=boot),
            fact(2, "play_started", NOON_US, boot, **place),
            fact(3, "play_first_keyframe", NOON_US, boot, **place, **seen),
            fact(4, "play_stopped", end_us, boot, **place, **seen, watched_us=WATCHED_S * SECOND_US),
            fact(5, "server_stopped", end_us, boot),
        ]
        lines = "".join(json.dumps(each) + "\n" for each in facts)
        (tmp_path / "facts" / FOLDER / f"edge-1-{boot}-1.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def test_a_cycle_under_spark_submit_loses_a_worker_and_nothing_else(cluster: SparkCluster, data: Path) -> None:
    arguments = [str(data), str(NOW_US)]
    with cluster.driver(CYCLE_AND_SOURCES, arguments, is_submitted=True) as driver:
        give_up_at = time.monotonic() + READY_DEADLINE_S
        # Bronze is there: silver and gold are still to come.
        while (
            not (data / "lake/bronze/facts/_delta_log/00000000000000000001.json").exists()
            and time.monotonic() < give_up_at
        ):
            time.sleep(POLL_S)
        cluster.kill_worker()
        assert driver.wait_for_exit(DRIVER_DEADLINE_S) == 0, driver.log_text()
    assert json.loads((data / "answers").read_text()) == {
        # Once, though both the cycle and `register` see to it.
        "shipped": 1,
        "imported": ["penstock/media/flv.py"],
        "zone": "UTC",
        "tags": 25,
        "frames": [[5]],
        "views": [[f"c{view}", WATCHED_S] for view in range(VIEWS)],
        "watched": [[f"cam-{stream}", VIEWS // 2 * WATCHED_S] for stream in range(2)],
        "usage": [[f"cam-{stream}", VIEWS // 2 * 1000] for stream in range(2)],
    }
