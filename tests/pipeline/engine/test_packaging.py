"""The zip that workers import the package from."""

import io
import os
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline.engine.packaging import package_zip, ship_package


def plant_package(folder: Path, written_at_s: int) -> Path:
    package = folder / "penstock"
    (package / "media" / "__pycache__").mkdir(parents=True)
    for name in ("media/flv.py", "__init__.py", "media/__pycache__/flv.pyc", "media/notes.txt"):
        (package / name).write_text(f"# {name}\n", encoding="utf-8")
        os.utime(package / name, (written_at_s, written_at_s))
    return package


def test_the_zip_holds_the_modules_by_their_names_in_the_package(tmp_path: Path) -> None:
    content = package_zip(plant_package(tmp_path, 1_700_000_000))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["penstock/__init__.py", "penstock/media/flv.py"]
        assert archive.read("penstock/media/flv.py") == b"# media/flv.py\n"


def test_equal_modules_are_equal_zips_whenever_they_were_written(tmp_path: Path) -> None:
    first, second = (plant_package(tmp_path / str(when), when) for when in (1_600_000_000, 1_700_000_000))
    assert package_zip(first) == package_zip(second)


def test_nothing_is_shipped_within_one_machine(spark: SparkSession) -> None:
    ship_package(spark)
    assert not [file for file in spark.sparkContext.listFiles if "penstock-" in file]
