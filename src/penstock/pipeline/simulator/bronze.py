"""A simulated platform straight as bronze: for as many facts as a disk holds, an hour in memory at a time.

Owns one file for each kind and hour, sorted by view as an hour is that is closed, and the commits that list them. What
landing adds to a fact is asked of the same functions.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from penstock import __version__
from penstock.pipeline import identity
from penstock.pipeline.commits import BootSpan, Change, Commit, CommitLog, DataFile, Touched
from penstock.pipeline.hours import hour_of_us
from penstock.pipeline.lake import Lake, new_run_id
from penstock.pipeline.salts import salts_for
from penstock.pipeline.schemas import bronze_schema
from penstock.pipeline.simulator.facts import FactsOfPlan, HourOfFacts, KindOfFacts
from penstock.pipeline.simulator.landing import landed_at_us
from penstock.pipeline.simulator.plan import HOUR_US, Plan, Platform
from penstock.pipeline.simulator.story import make_plan
from penstock.pipeline.simulator.truth import Truth, truth_of
from penstock.pipeline.tables import TRANSFORMS_VERSION

_PLAYS: Final = ("play_started", "play_stopped")
"""The kinds that say who watches."""
_SINCE_VIEW: Final = {"play_first_keyframe": "startup_us", "play_stopped": "watched_us", "viewer_sample": "watched_us"}
"""By kind the field that says how long ago the view began."""
_REPEATED_TEXTS: Final = ("server_id", "boot_id", "app", "stream", "protocol", "client", "reason", "layer", "detail")
_ROW_GROUP_ROWS: Final = 1 << 20


class SimulatedBronze:
    """Writes and commits the facts of a platform."""

    def __init__(self, spark: SparkSession, platform: Platform, lake: Lake) -> None:
        self._plan = make_plan(platform)
        self._told = FactsOfPlan(self._plan)
        self._lake = lake
        self._facts = 0
        self._schema = to_arrow_schema(bronze_schema())
        self._boot_key = _boot_keys(spark, self._plan)
        salts = salts_for(lake.storage, [f"{platform.day:%Y-%m}"])
        self._viewer_key, self._network = _identities(spark, self._told.identities(), platform.begins_us, salts)

    @property
    def truth(self) -> Truth:
        """Of the hours that were written."""
        return truth_of(self._plan, self._told, self._facts)

    def write_hours(self) -> Iterator[str]:
        """Write an hour, commit it, say which it was, and go on when asked for the next."""
        for hour in self._told.hours():
            now_us = self._plan.platform.begins_us + HOUR_US
            run_id = new_run_id(now_us)
            changes = tuple(
                Change(f"bronze.{kind}", hour.hour, (self._write(kind, told, hour.hour, run_id),), is_replacing=False)
                for kind, told in hour.kinds.items()
            )
            snapshot = self._lake.snapshot()
            commit = Commit(
                number=snapshot.number + 1,
                run_id=run_id,
                at_us=now_us,
                stage="bronze",
                software_version=__version__,
                transforms_version=TRANSFORMS_VERSION,
                changes=changes,
                touched=_touched(hour),
                boots=tuple(self._spans(hour)),
            )
            CommitLog(self._lake.storage).append(snapshot, commit)
            self._facts += sum(told.table.num_rows for told in hour.kinds.values())
            yield hour.hour

    def write(self) -> Truth:
        """Write all of it. What it tells."""
        for _ in self.write_hours():
            pass
        return self.truth

    def _write(self, kind: str, told: KindOfFacts, hour: str, run_id: str) -> DataFile:
        storage = self._lake.storage
        folder = f"bronze/kind={kind}/hour={hour}"
        path = f"{folder}/{run_id}-0.parquet"
        storage.make_folder(folder)
        table = self._bronze(kind, told)
        with storage.fs.open_output_stream(storage.path_for_arrow(path)) as sink:
            pq.write_table(
                table,
                sink,
                row_group_size=_ROW_GROUP_ROWS,
                use_dictionary=list(_REPEATED_TEXTS),
                store_schema=False,
            )
        size = storage.fs.get_file_info(storage.path_for_arrow(path)).size
        return DataFile(path, table.num_rows, size, {"seqs": self._seq_spans(told)})

    def _seq_spans(self, told: KindOfFacts) -> dict[str, list[int]]:
        """As landing keeps them, to know facts that come twice."""
        seq = told.table["seq"].to_numpy()
        of_boots = {index: seq[told.boot == index] for index in np.unique(told.boot).tolist()}
        return {str(self._boot_key[index]): [int(each.min()), int(each.max())] for index, each in of_boots.items()}

    def _bronze(self, kind: str, told: KindOfFacts) -> pa.Table:
        at_us = told.table["at_us"].to_numpy()
        columns = {name: told.table[name] for name in told.table.column_names}
        columns |= {
            "boot_key": pa.array(self._boot_key[told.boot]),
            "view_seq": told.view_seq,
            "landed_at_us": pa.array(landed_at_us(self._plan, told.boot, at_us)),
        }
        if told.connection is not None:
            rows = pa.array(told.connection)
            columns["network"] = self._network.take(rows)
            if kind in _PLAYS:
                columns["viewer_key"] = self._viewer_key.take(rows)
        return pa.table(
            {field.name: columns.get(field.name, pa.nulls(told.table.num_rows, field.type)) for field in self._schema}
        )

    def _spans(self, hour: HourOfFacts) -> Iterator[BootSpan]:
        boot = np.concatenate([told.boot for told in hour.kinds.values()])
        at_us = np.concatenate([told.table["at_us"].to_numpy() for told in hour.kinds.values()])
        seq = np.concatenate([told.table["seq"].to_numpy() for told in hour.kinds.values()])
        stopped = hour.kinds["server_stopped"].boot.tolist() if "server_stopped" in hour.kinds else []
        for index in np.unique(boot).tolist():
            of_boot, known = boot == index, self._plan.boots[index]
            yield BootSpan(
                boot_key=int(self._boot_key[index]),
                server_id=known.server_id,
                boot_id=known.boot_id,
                first_at_us=int(at_us[of_boot].min()),
                last_at_us=int(at_us[of_boot].max()),
                min_seq=int(seq[of_boot].min()),
                max_seq=int(seq[of_boot].max()),
                facts=int(of_boot.sum()),
                is_stopped=index in stopped,
            )


def _touched(hour: HourOfFacts) -> Touched:
    views, sessions = {hour.hour}, {hour.hour}
    for kind, told in hour.kinds.items():
        if kind in _SINCE_VIEW:
            views |= _hours_before(told.table, _SINCE_VIEW[kind])
        elif "duration_us" in told.table.column_names:
            sessions |= _hours_before(told.table, "duration_us")
    return Touched(
        {kind: frozenset({hour.hour}) for kind in hour.kinds}, {hour.hour: frozenset(views)}, frozenset(sessions)
    )


def _hours_before(facts: pa.Table, since: str) -> set[str]:
    began_us = pc.subtract(facts["at_us"], facts[since]).to_numpy() // HOUR_US * HOUR_US
    return {hour_of_us(each) for each in np.unique(began_us).tolist()}


def _boot_keys(spark: SparkSession, plan: Plan) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    rows = [(index, boot.server_id, boot.boot_id) for index, boot in enumerate(plan.boots)]
    frame = spark.createDataFrame(rows, "index int, server_id string, boot_id string")
    keys = frame.select("index", identity.boot_key(F.col("server_id"), F.col("boot_id"))).collect()
    return np.array([key for _, key in sorted(keys)], np.int64)


def _identities(spark: SparkSession, known: pa.Table, at_us: int, salts: dict[str, str]) -> tuple[pa.Array, pa.Array]:
    """Viewer keys and networks, by connection."""
    indexed = known.append_column("index", pa.array(np.arange(known.num_rows)))
    fact = {name: F.col(name) for name in known.column_names} | {"at_us": F.lit(at_us)}
    named = spark.createDataFrame(indexed).select(
        "index",
        identity.viewer_key(fact, salts).alias("viewer_key"),
        identity.network_of(identity.ip_of(F.col("peer_addr"))).alias("network"),
    )
    rows = named.toArrow().sort_by("index").combine_chunks()
    return rows["viewer_key"].chunk(0), rows["network"].chunk(0)
