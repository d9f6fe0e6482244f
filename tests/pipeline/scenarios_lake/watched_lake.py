"""A lake that tells which tables are read and replaced."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from penstock.facts import FACTS
from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.lake import EVERYTHING, Lake, Wanted
from penstock.pipeline.lake.layout import BRONZE
from penstock.pipeline.lake.storage import Storage


class Uses(Protocol):
    """Who is told of uses of tables, by their full names; of facts by their kinds."""

    def read(self, table: str) -> None: ...

    def replace(self, table: str) -> None: ...


class WatchedLake(Lake):
    """With each way to rows and each way to write them watched."""

    def __init__(self, storage: Storage, uses: Uses) -> None:
        super().__init__(storage)
        self._uses = uses

    def read(
        self,
        spark: SparkSession,
        pinned: Pinned | None,
        table: str,
        wanted: Wanted = EVERYTHING,
        columns: Collection[str] | None = None,
    ) -> DataFrame:
        self._tell(table, wanted)
        return super().read(spark, pinned, table, wanted, columns)

    def rows(
        self, pinned: Pinned | None, wanted: Wanted = EVERYTHING, columns: Sequence[str] | None = None
    ) -> pa.Table:
        assert pinned is not None
        self._tell(pinned.name, wanted)
        return super().rows(pinned, wanted, columns)

    def replace_hours(
        self, name: str, pinned: Pinned, rows: DataFrame, hours: Collection[str]
    ) -> tuple[Pinned, list[str]]:
        self._uses.replace(name)
        return super().replace_hours(name, pinned, rows, hours)

    def replace_days(
        self, name: str, pinned: Pinned, rows: DataFrame, days: Collection[str], kept: pc.Expression | None = None
    ) -> Pinned:
        self._uses.replace(name)
        return super().replace_days(name, pinned, rows, days, kept)

    def put_days(self, name: str, pinned: Pinned, rows: Mapping[str, pa.Table]) -> Pinned:
        self._uses.replace(name)
        return super().put_days(name, pinned, rows)

    def _tell(self, table: str, wanted: Wanted) -> None:
        kinds = FACTS if wanted.kinds is None else wanted.kinds
        for name in (f"bronze.{kind}" for kind in kinds) if table == BRONZE else (table,):
            self._uses.read(name)
