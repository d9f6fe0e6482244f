"""Arrow columns from numpy arrays and Python values, and Arrow's types for Spark's.

Does without `pyarrow.array`, which imports pandas at its first call: a third of a second for each worker. Numbers are
not copied.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import BinaryType, BooleanType, DoubleType, IntegerType, LongType, StringType, StructType

_ARROW_TYPES: Final[dict[type, pa.DataType]] = {
    StringType: pa.string(),
    LongType: pa.int64(),
    IntegerType: pa.int32(),
    DoubleType: pa.float64(),
    BooleanType: pa.bool_(),
    BinaryType: pa.binary(),
}
_NUMBER_TYPES: Final = {"i8": pa.int64(), "i4": pa.int32(), "i1": pa.int8()}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The types that Spark expects of batches."""
    return pa.schema([(field.name, _ARROW_TYPES[type(field.dataType)]) for field in schema])


def numbers(values: NDArray[Any], is_null: NDArray[np.bool_] | None = None) -> pa.Array:
    """Whole numbers, of which some may be absent."""
    data = np.ascontiguousarray(values)
    validity = None if is_null is None else _bits(~is_null)
    return pa.Array.from_buffers(_NUMBER_TYPES[data.dtype.str[1:]], len(data), [validity, pa.py_buffer(data)])


def truths(values: NDArray[np.bool_]) -> pa.Array:
    """Booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def words(choice: Sequence[str | None], codes: NDArray[np.int8]) -> pa.Array:
    """Strings, each given by its position in a short list."""
    return strings(choice).take(numbers(codes))


def strings(values: Sequence[str | None]) -> pa.Array:
    """Text, of which some may be absent."""
    data = binaries([None if value is None else value.encode() for value in values])
    return pa.Array.from_buffers(pa.string(), len(values), data.buffers())


def binaries(values: Sequence[bytes | None]) -> pa.Array:
    """Bytes, of which some may be absent."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    validity = _bits(np.array([value is not None for value in values], np.bool_))
    data = pa.py_buffer(b"".join(value for value in values if value is not None))
    return pa.Array.from_buffers(pa.binary(), len(values), [validity, pa.py_buffer(offsets), data])


def constant(value: str | int | None, arrow_type: pa.DataType, count: int) -> pa.Array:
    """One value for all rows; None is null."""
    if value is None:
        return pa.nulls(count, arrow_type)
    if isinstance(value, int):
        return numbers(np.full(count, value, np.int64))
    data = value.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data * count)])


def _bits(values: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
