"""Rows of sessions that a run leaves as they are: which may have changed is told by keys, and the rest is carried over.

Owns what a row rests on. A session that a fact has ended rests on its own facts alone, and changes only with new ones.
One whose end nobody told also rests on its boot, which may be lost or speak again, and is made anew by every run that
looks at its hour. It may name a session too many, never one too few. Works on rows that were read by this process, so
that what is carried over never passes through Spark.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.gathered import hours_since_1970
from penstock.pipeline.hours import HOUR_US, hour_of_us
from penstock.pipeline.tables import SERVER_LOST
from penstock.pipeline.transforms.common import VIEW_KEYS

CONNECTION: Final = ["server_id", "boot_id", "conn_id"]
_COUNT: Final = "__count"


def touched_views(minutes: pa.Table, known: pa.Table) -> pa.Table:
    """The keys of views that have one of the minutes, or whose end nobody told.

    Every fact about a view that was let in is in one of its minutes. The others are of one fact each.
    """
    return distinct(VIEW_KEYS, minutes, known.filter(known["is_estimated"]))


def untouched_views(known: pa.Table, touched: pa.Table) -> pa.Table:
    """Rows of views that were let in and have none of the keys."""
    return _without(known.filter(pc.invert(known["is_failed_start"])), touched, VIEW_KEYS)


def touched_connections(told: pa.Table, known: pa.Table) -> pa.Table:
    """The keys of connections that these facts are about, or whose end nobody told."""
    return distinct(CONNECTION, told, known.filter(pc.invert(_is_ended_by_a_fact(known))))


def untouched_connections(known: pa.Table, touched: pa.Table) -> pa.Table:
    """Rows of connections that have none of the keys."""
    return _without(known, touched, CONNECTION)


def changed_hours(before: pa.Table, after: pa.Table, time: str, columns: Sequence[str]) -> frozenset[str]:
    """The hours by that time in which rows came, went or changed, as far as these columns tell."""
    looked_at = [time, *columns]
    both = pa.concat_tables(
        rows.select(looked_at).append_column(_COUNT, pa.repeat(count, rows.num_rows))
        for rows, count in ((before, 1), (after, -1))
    )
    summed = both.group_by(looked_at).aggregate([(_COUNT, "sum")])
    differing = summed.filter(pc.not_equal(summed[f"{_COUNT}_sum"], 0))
    return frozenset(hour_of_us(hour * HOUR_US) for hour in pc.unique(hours_since_1970(differing[time])).to_pylist())


def _is_ended_by_a_fact(connections: pa.Table) -> pa.ChunkedArray:
    is_lost = pc.fill_null(pc.equal(connections["close_reason"], SERVER_LOST), fill_value=False)
    return pc.and_(pc.is_valid(connections["closed_at"]), pc.invert(is_lost))


def distinct(names: list[str], *rows: pa.Table) -> pa.Table:
    """The different keys of these rows."""
    return pa.concat_tables(each.select(names) for each in rows).group_by(names).aggregate([])


def _without(rows: pa.Table, touched: pa.Table, names: list[str]) -> pa.Table:
    return rows.join(touched, names, join_type="left anti")
