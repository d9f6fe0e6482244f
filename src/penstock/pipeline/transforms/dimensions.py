"""Dimensions of views and publications: all of them, by client, protocol, server and network, and as configured.

Owns how a dimension's value is read from a row of silver. A row without a value in a dimension counts as `unknown`
there, so the values of one dimension add up to the total. Networks are those of providers, /16 of IPv4 and /32 of IPv6:
a view's own network has, as a rule, no second viewer in the same hour.

Counting goes by number, a hash of the value's name, which is joined in when few rows are left: grouping by text is
slow. The rarest values beyond a bound are counted together, as `other`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.lake.dimensions import (
    ALL,
    ASN,
    AUTH_SUBJECT,
    COUNTRY,
    MAX_VALUE_CHARACTERS,
    OTHER,
    UNKNOWN,
    Dimensions,
)

_PROVIDER: Final = """
CASE WHEN endswith(network, '/24') THEN concat(substring_index(network, '.', 2), '.0.0/16')
     WHEN endswith(network, '::/48')
     THEN concat(regexp_replace(substring_index(substring_index(network, '::', 1), ':', 2), ':0$', ''), '::/32')
     ELSE network END
"""
_OF_EVERY_VIEW: Final = {"client": "client", "protocol": "protocol", "server": "server_id", "network": _PROVIDER}
_TOLD: Final = {COUNTRY: "country", ASN: "'AS' || asn", AUTH_SUBJECT: "auth_subject"}
TOLD_BY: Final = ("country", "asn", "dimensions", "auth_subject")
"""The columns of a view or publication that `named_values` reads."""
VALUE: Final = ("app", "stream", "dimension", "value")
"""The name of one value of a dimension, of one stream."""


def value_keys(dimensions: Dimensions) -> Column:
    """The numbers of the values that a view counts for, for a frame with the columns of silver.views."""
    return F.array(
        *(F.xxhash64("app", "stream", F.lit(name), value) for name, value in _all_values(dimensions).items())
    )


def value_names(views: DataFrame, dimensions: Dimensions) -> DataFrame:
    """One row for each value that a view counts for: its number and its name."""
    named = views.select("app", "stream", F.inline(_pairs(_all_values(dimensions)))).distinct()
    return named.select(F.xxhash64(*VALUE).alias("value_key"), *VALUE)


def named_values(dimensions: Dimensions) -> Column:
    """Dimension and value of those of audience and usage, for a row of silver.views or silver.publications."""
    return _pairs(_values(dimensions, dimensions.named))


def most_frequent(counted: DataFrame, within: tuple[str, ...], count: str, max_values: int) -> DataFrame:
    """The same rows, with `shown` for the `value`: itself for so many with the highest counts, else `other`.

    `within` are the columns, the dimension among them, of which each has its own most frequent values.
    """
    place = F.row_number().over(Window.partitionBy(*within).orderBy(F.col(count).desc(), "value"))
    return counted.withColumn("shown", F.when(place <= max_values, F.col("value")).otherwise(F.lit(OTHER)))


def _all_values(dimensions: Dimensions) -> dict[str, Column]:
    of_every_view = {name: F.coalesce(F.expr(column), F.lit(UNKNOWN)) for name, column in _OF_EVERY_VIEW.items()}
    return {ALL: F.lit(ALL), **of_every_view, **_values(dimensions, dimensions.configured)}


def _values(dimensions: Dimensions, names: tuple[str, ...]) -> dict[str, Column]:
    told = F.from_json("dimensions", "map<string,string>")
    found = {name: F.try_element_at(told, F.lit(name)) for name in dimensions.parameters}
    found |= {name: F.expr(_TOLD[name]) for name in names if name in _TOLD}
    return {name: F.coalesce(_bounded(value), F.lit(UNKNOWN)) for name, value in found.items()}


def _bounded(value: Column) -> Column:
    return F.when(F.length(value) > MAX_VALUE_CHARACTERS, F.lit(OTHER)).otherwise(value)


def _pairs(values: dict[str, Column]) -> Column:
    return F.array(*(F.struct(F.lit(name).alias("dimension"), value.alias("value")) for name, value in values.items()))
