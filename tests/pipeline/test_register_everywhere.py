"""One call makes everything known, in a session that somebody else made with nothing but PySpark's own means."""

import json
import sys
from datetime import date
from pathlib import Path

from penstock.pipeline.class_archive import archive_options
from penstock.pipeline.java import cache_folder, find_java, launcher_home
from penstock.pipeline.lake import Lake, stored_tables
from penstock.pipeline.session import SHORT_LIVED
from penstock.pipeline.storage import Storage
from tests.pipeline.reports.rows import put_gold
from tests.pipeline.sources.recordings import make_numbered
from tests.support.processes import run_to_end

NOTEBOOK = """
import json
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")

from penstock.pipeline import register

register(spark, "data")
tables = [f"{each.namespace[0]}.{each.name}" for name in ("bronze", "silver", "rollup", "gold")
          for each in spark.catalog.listTables(name)]
Path("answers").write_text(json.dumps({
    "tables": sorted(tables),
    "zone": spark.conf.get("spark.sql.session.timeZone"),
    "usage": [list(row) for row in spark.sql("select cast(day as string), egress_bytes from gold.usage").collect()],
    "frames": spark.table("silver.frames").where("kind = 'video'").count(),
    "keys": spark.read.format("flv").load("data/recordings").where("kind = 'video' AND is_key").count(),
}))
"""


def test_a_session_of_plain_pyspark_knows_everything_after_one_call(tmp_path: Path) -> None:
    lake = Lake(Storage(tmp_path / "data/lake"))
    lake.create()
    put_gold(tmp_path / "data/lake", "usage", "2026-11-15", {"day": date(2026, 11, 15), "egress_bytes": 7})
    (tmp_path / "data/recordings").mkdir()
    make_numbered(tmp_path / "data/recordings/a.flv", gops=2)
    (tmp_path / "notebook.py").write_text(NOTEBOOK, encoding="utf-8")
    # Of what our own sessions are given it has Java, and what makes that start fast.
    java, kept_in = find_java(), cache_folder()
    variables = {
        "JAVA_HOME": str(launcher_home(java, kept_in)),
        "JDK_JAVA_OPTIONS": " ".join([SHORT_LIVED, *archive_options(java, kept_in)]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = ["env", "-C", str(tmp_path), *(f"{name}={value}" for name, value in variables.items())]
    run_to_end([*command, sys.executable, "notebook.py"], tmp_path / "log", 300.0)
    assert json.loads((tmp_path / "answers").read_text(encoding="utf-8")) == {
        "tables": sorted([*stored_tables(), "silver.viewer_samples", "silver.frames"]),
        "zone": "UTC",
        "usage": [["2026-11-15", 7]],
        "frames": 10,
        "keys": 2,
    }
