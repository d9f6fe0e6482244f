"""The data pipeline on Spark: facts and recordings as tables.

`register` is the front door for whoever has a Spark session of their own: a notebook, `pyspark`, `spark-submit`.
Importing this imports no Spark; its parts do.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(
    spark: "SparkSession", data: str | Path = "data", *, lake: str | None = None, recordings: str | None = None
) -> None:
    """Make the sources and all tables of a data folder known to a session, by their names.

    The lake and the recordings are looked for in the data folder unless they are named, by path or by address.
    """
    from penstock.pipeline.lake import Lake  # noqa: PLC0415
    from penstock.pipeline.packaging import ship_package  # noqa: PLC0415
    from penstock.pipeline.registry import LakeTables  # noqa: PLC0415
    from penstock.pipeline.session import ensure_needed  # noqa: PLC0415
    from penstock.pipeline.sources import register_sources  # noqa: PLC0415
    from penstock.pipeline.storage import Storage  # noqa: PLC0415

    folder = Storage(data)
    recorded = recordings or folder.address("recordings")
    ensure_needed(spark)
    ship_package(spark)
    register_sources(spark)
    LakeTables(spark, Lake(Storage(lake or folder.address("lake"))), recorded).make_all()
