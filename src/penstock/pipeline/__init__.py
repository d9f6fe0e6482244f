"""The data pipeline on Spark: facts and recordings as tables.

`register` and `table` are the front door for whoever has a Spark session of their own: a notebook, `pyspark`,
`spark-submit`. Importing this imports no Spark; its parts do.
"""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["register", "table"]


def register(
    spark: "SparkSession", data: str | Path = "data", *, lake: str | None = None, recordings: str | None = None
) -> dict[str, int]:
    """Register the sources, and a view of every table at its newest version. Calling it again refreshes the views.

    The lake and the recordings are looked for in the data folder unless they are named, by path or by address. Returns
    the version that each view is of; -1: nothing was ever written to the table.
    """
    from penstock.pipeline.engine.packaging import ship_package  # noqa: PLC0415
    from penstock.pipeline.engine.session import ensure_needed  # noqa: PLC0415
    from penstock.pipeline.lake.lake import Lake  # noqa: PLC0415
    from penstock.pipeline.lake.storage import Storage  # noqa: PLC0415
    from penstock.pipeline.queries.views import LakeViews  # noqa: PLC0415
    from penstock.pipeline.sources import register_sources  # noqa: PLC0415

    folder = Storage(data)
    recorded = recordings or folder.address("recordings")
    ensure_needed(spark)
    ship_package(spark)
    register_sources(spark)
    return LakeViews(spark, Lake(Storage(lake or folder.address("lake"))), recorded).refresh()


def table(
    spark: "SparkSession",
    name: str,
    data: str | Path = "data",
    *,
    lake: str | None = None,
    version: int | None = None,
    hours: tuple[datetime, datetime] | None = None,
) -> "DataFrame":
    """A table, such as silver.views, at its newest version or at another one, for as long as the DataFrame is held.

    `hours` is a pair of UTC datetimes, the end excluded: only files with rows of that time are opened. Files of older
    versions are kept for six hours (`KEPT_VERSIONS_H`). After that a version is refused with LakeError, and a DataFrame
    of it that was held fails with Spark's FAILED_READ_FILE.FILE_NOT_EXIST; it never gives some of its rows.
    """
    from penstock.pipeline.engine.session import ensure_needed  # noqa: PLC0415
    from penstock.pipeline.lake.lake import Lake  # noqa: PLC0415
    from penstock.pipeline.lake.storage import Storage  # noqa: PLC0415
    from penstock.pipeline.queries.tables import read_table  # noqa: PLC0415

    ensure_needed(spark)
    return read_table(spark, Lake(Storage(lake or Storage(data).address("lake"))), name, version=version, hours=hours)
