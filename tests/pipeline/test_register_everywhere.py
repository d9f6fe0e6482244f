"""One call makes everything known, in a session that somebody else made with nothing but PySpark's own means.

And `penstock pipeline sql`, which makes known only what a query names.
"""

import json
import sys
from datetime import date
from pathlib import Path

import pytest

from penstock.pipeline.engine.class_archive import archive_options
from penstock.pipeline.engine.java import cache_folder, find_java, launcher_home
from penstock.pipeline.engine.session import SHORT_LIVED
from penstock.pipeline.lake.layout import named_tables
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A day of usage and a recording, in `data` of it."""
    put_gold(tmp_path / "data/lake", "usage", "2026-11-15", {"day": date(2026, 11, 15), "egress_bytes": 7})
    (tmp_path / "data/recordings").mkdir()
    make_numbered(tmp_path / "data/recordings/a.flv", gops=2)
    return tmp_path


def test_a_query_is_answered_by_a_spark_of_its_own_where_no_pipeline_runs(folder: Path) -> None:
    query = "select day, egress_bytes from gold.usage where egress_bytes > (select count(*) from silver.views)"
    words = ["pipeline", "sql", "--data", str(folder / "data"), "--format", "json", query]
    printed = run_to_end([sys.executable, "-m", "penstock", *words], folder / "log", 120.0)
    assert printed == '[{"day": "2026-11-15", "egress_bytes": 7}]\n'


def test_a_session_of_plain_pyspark_knows_everything_after_one_call(folder: Path) -> None:
    (folder / "notebook.py").write_text(NOTEBOOK, encoding="utf-8")
    # Of what our own sessions are given it has Java, and what makes that start fast.
    java, kept_in = find_java(), cache_folder()
    variables = {
        "JAVA_HOME": str(launcher_home(java, kept_in)),
        "JDK_JAVA_OPTIONS": " ".join([SHORT_LIVED, *archive_options(java, kept_in)]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = ["env", "-C", str(folder), *(f"{name}={value}" for name, value in variables.items())]
    run_to_end([*command, sys.executable, "notebook.py"], folder / "log", 300.0)
    assert json.loads((folder / "answers").read_text(encoding="utf-8")) == {
        "tables": sorted([*named_tables(), "silver.frames"]),
        "zone": "UTC",
        "usage": [["2026-11-15", 7]],
        "frames": 10,
        "keys": 2,
    }
