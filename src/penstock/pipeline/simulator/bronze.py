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
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.pipeline.ingest import identity
from penstock.pipeline.ingest.salts import salts_for
from penstock.pipeline.lake.fact_kinds import STREAM_KINDS
from penstock.pipeline.lake.hours import day_of, hour_of_us
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE, folder_of
from penstock.pipeline.lake.schemas import bronze_schema
from penstock.pipeline.lake.state import Batch, BootHour, BootSpan, Touched
from penstock.pipeline.simulator.facts import FactsOfPlan, HourOfFacts, KindOfFacts
from penstock.pipeline.simulator.landing import landed_at_us
from penstock.pipeline.simulator.plan import HOUR_US, Plan, Platform
from penstock.pipeline.simulator.story import make_plan
from penstock.pipeline.simulator.truth import Truth, truth_of

_PLAYS: Final = ("play_started", "play_stopped")
"""The kinds that say who watches."""
_SINCE_VIEW: Final = {"play_first_keyframe": "startup_us", "play_stopped": "watched_us", "viewer_sample": "watched_us"}
"""By kind the field that says how long ago the view began."""
_REPEATED_TEXTS: Final = ("server_id", "boot_id", "app", "stream", "protocol", "client", "reason", "layer", "detail")
_ROW_GROUP_ROWS: Final = 1 << 20


class SimulatedBronze:
    """Writes and commits the facts of a platform."""

    def __init__(self, platform: Platform, lake: Lake) -> None:
        self._plan = make_plan(platform)
        self._told = FactsOfPlan(self._plan)
        self._lake = lake
        self._facts = 0
        self._schema = to_arrow_schema(bronze_schema())
        self._boot_key = _boot_keys(self._plan)
        (salt,) = salts_for(lake.storage, [f"{platform.day:%Y-%m}"]).values()
        self._viewer_key, self._network = _identities(self._told.identities(), salt)

    @property
    def truth(self) -> Truth:
        """Of the hours that were written."""
        return truth_of(self._plan, self._told, self._facts)

    def write_hours(self) -> Iterator[str]:
        """Write an hour, commit it, say which it was, and go on when asked for the next."""
        for hour in self._told.hours():
            added = [self._write(kind, told, hour.hour) for kind, told in hour.kinds.items()]
            bronze = self._lake.table(BRONZE).pin_or_create()
            batch = Batch(
                at_us=self._plan.platform.begins_us + HOUR_US,
                touched=_touched(hour),
                boots=tuple(self._spans(hour)),
                boot_hours=tuple(self._boot_hours(hour)),
            )
            self._lake.ingest(bronze, self._lake.read_state(bronze), batch, added)
            self._facts += sum(told.table.num_rows for told in hour.kinds.values())
            yield hour.hour

    def write(self) -> Truth:
        """Write all of it. What it tells."""
        for _ in self.write_hours():
            pass
        return self.truth

    def _write(self, kind: str, told: KindOfFacts, hour: str) -> str:
        storage, folder = self._lake.storage, folder_of(BRONZE)
        path = f"kind={kind}/date={day_of(hour)}/{hour}.parquet"
        storage.make_folder(f"{folder}/{path}".rpartition("/")[0])
        table = self._bronze(kind, told)
        with storage.fs.open_output_stream(storage.path_for_arrow(f"{folder}/{path}")) as sink:
            pq.write_table(
                table.append_column("hour", pa.repeat(hour, table.num_rows)),
                sink,
                row_group_size=_ROW_GROUP_ROWS,
                use_dictionary=[*_REPEATED_TEXTS, "hour"],
                store_schema=False,
            )
        return path

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
                worker=1,
            )

    def _boot_hours(self, hour: HourOfFacts) -> Iterator[BootHour]:
        streaming = {index for kind in STREAM_KINDS if kind in hour.kinds for index in hour.kinds[kind].boot.tolist()}
        streaming_keys = {int(self._boot_key[index]) for index in streaming}
        for span in self._spans(hour):
            has_streams = span.boot_key in streaming_keys
            yield BootHour(span.boot_key, hour.hour, span.min_seq, span.max_seq, has_streams)


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


def _boot_keys(plan: Plan) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array([identity.boot_key(boot.server_id, boot.boot_id) for boot in plan.boots], np.int64)


def _identities(known: pa.Table, salt: str) -> tuple[pa.Array, pa.Array]:
    """Viewer keys and networks, by connection."""
    rows = known.to_pylist()
    ips = [identity.ip_of(row["peer_addr"]) for row in rows]
    keys = [
        identity.viewer_key(row["auth_subject"], row["viewer"], ip, row["client"], salt)
        for row, ip in zip(rows, ips, strict=True)
    ]
    return pa.array(keys, pa.string()), pa.array([identity.network_of(ip) for ip in ips], pa.string())
