"""The ways in which viewers are cut: all of them, and by client, protocol, server and network.

Owns the names of the dimensions. A view without a value in a dimension counts as `unknown` there. Networks are those
of providers, /16 of IPv4 and /32 of IPv6: a view's own network has, as a rule, no second viewer in the same hour.

What is counted by cut is counted by number, a hash of the cut's name, and gets the name when little is left: grouping
by text is slow.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

ALL: Final = "all"
UNKNOWN: Final = "unknown"
_PROVIDER: Final = """
CASE WHEN endswith(network, '/24') THEN concat(substring_index(network, '.', 2), '.0.0/16')
     WHEN endswith(network, '::/48')
     THEN concat(regexp_replace(substring_index(substring_index(network, '::', 1), ':', 2), ':0$', ''), '::/32')
     ELSE network END
"""
_COLUMNS: Final = {"client": "client", "protocol": "protocol", "server": "server_id", "network": _PROVIDER}
CUT: Final = ("app", "stream", "dimension", "value")


def cut_keys() -> Column:
    """The numbers of the cuts that a view belongs to, for a frame with the columns of silver.views."""
    return F.array(*(F.xxhash64("app", "stream", dimension, value) for dimension, value in _cuts()))


def cut_names(views: DataFrame) -> DataFrame:
    """One row for each cut that a view belongs to: its number and its name."""
    cuts = F.array(*(F.struct(dimension.alias("dimension"), value.alias("value")) for dimension, value in _cuts()))
    return views.select("app", "stream", F.inline(cuts)).distinct().select(F.xxhash64(*CUT).alias("cut_key"), *CUT)


def _cuts() -> list[tuple[Column, Column]]:
    known = {dimension: F.coalesce(F.expr(column), F.lit(UNKNOWN)) for dimension, column in _COLUMNS.items()}
    return [(F.lit(dimension), value) for dimension, value in {ALL: F.lit(ALL), **known}.items()]
