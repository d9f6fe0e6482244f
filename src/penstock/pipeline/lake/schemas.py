"""Spark's types for the facts and the tables.

Owns two translations: the dataclasses of `penstock.facts` to what bronze holds, and the columns of `tables` to schemas.
Bronze is one wide row for all kinds, so that a batch of facts is one commit; a fact leaves the fields of other kinds
null, and a file, which holds facts of one kind, leaves those columns out. Fields of one name have one type in all.
"""

import dataclasses
import types
from functools import cache
from typing import Final, Union, get_args, get_origin, get_type_hints

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.facts import FACTS, Envelope
from penstock.pipeline.lake.tables import Table

_TYPES: Final[dict[type, DataType]] = {
    int: LongType(),
    float: DoubleType(),
    str: StringType(),
    bool: BooleanType(),
}

_NAMED_TYPES: Final[dict[str, DataType]] = {
    "string": StringType(),
    "bigint": LongType(),
    "int": IntegerType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "date": DateType(),
}

ADDED_FIELDS: Final = (
    StructField("boot_key", LongType(), nullable=False),
    StructField("view_seq", LongType()),
    StructField("landed_at_us", LongType(), nullable=False),
    StructField("viewer_key", StringType()),
    StructField("network", StringType()),
    StructField("country", StringType()),
    StructField("asn", LongType()),
)
"""What bronze adds to a fact: short keys, when its file landed, and what is kept of an address."""

PARTITION_FIELDS: Final = (
    StructField("kind", StringType(), nullable=False),
    StructField("hour", StringType(), nullable=False),
)
"""How bronze is partitioned: by kind, and by the UTC hour of the event as in 2026-11-15T20."""


def spark_type(annotation: object) -> tuple[DataType, bool]:
    """Spark's type for a field of a fact, and whether it may be null."""
    if get_origin(annotation) in (types.UnionType, Union):
        (present,) = [each for each in get_args(annotation) if each is not types.NoneType]
        return spark_type(present)[0], True
    if not isinstance(annotation, type) or annotation not in _TYPES:
        raise TypeError(f"facts have no fields of type {annotation}")
    return _TYPES[annotation], False


def fields_of(fact: type) -> list[StructField]:
    """The fields of a fact's dataclass in their order."""
    hints = get_type_hints(fact)
    return [StructField(field.name, *spark_type(hints[field.name])) for field in dataclasses.fields(fact)]


def landing_schema() -> StructType:
    """A line of any kind: the envelope, then every field of every kind, all nullable."""
    # A schema of its own for each who asks: they can be added to.
    return StructType(list(_landed_fields()))


@cache
def _landed_fields() -> tuple[StructField, ...]:
    fields: dict[str, StructField] = {}
    kinds: list[type] = [Envelope, *FACTS.values()]
    for kind in kinds:
        for field in fields_of(kind):
            known = fields.setdefault(field.name, StructField(field.name, field.dataType))
            if known.dataType != field.dataType:
                raise TypeError(f"{field.name} has two types among the facts")
    return tuple(fields.values())


def bronze_schema() -> StructType:
    """What a file of bronze holds: a landed line and what was added, without the columns of its partition."""
    partitions = {field.name for field in PARTITION_FIELDS}
    landed = [field for field in landing_schema() if field.name not in partitions]
    return StructType([*landed, *ADDED_FIELDS])


def bronze_columns(kind: str) -> list[str]:
    """The columns of bronze that facts of a kind may fill, envelope first; the kind itself is the table's name."""
    own = [field.name for field in (*fields_of(Envelope), *fields_of(FACTS[kind])) if field.name != "kind"]
    return [*own, *(field.name for field in ADDED_FIELDS), "hour"]


def table_schema(table: Table) -> StructType:
    """The schema of a table, without the column of its partition."""
    return StructType([StructField(each.name, _NAMED_TYPES[each.type], not each.required) for each in table.columns])
