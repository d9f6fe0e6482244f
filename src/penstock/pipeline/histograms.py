"""Histograms with fixed buckets: integers in, integers out, and the same in whatever order the values came.

Owns the edges. Values below 64 have a bucket each; above, each power of two is cut into 32 buckets of equal width, so
that the middle of a bucket is within 2 % of every value in it. Percentiles are read from counts: the middle of the
bucket in which the value of that rank lies.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

_CUTS_BITS: Final = 5
_CUTS: Final = 1 << _CUTS_BITS
_MAX_BITS: Final = 37
MAX_VALUE: Final = (1 << _MAX_BITS) - 1
"""Larger values count as this one: 38 hours in microseconds."""
BUCKETS: Final = (_MAX_BITS - _CUTS_BITS + 1) * _CUTS
"""How many there are."""


def bucket_of(value: int) -> int:
    """The number of the bucket that a value falls into; negative values fall into the first."""
    value = min(max(value, 0), MAX_VALUE)
    shift = max(value.bit_length() - 1 - _CUTS_BITS, 0)
    return shift * _CUTS + (value >> shift)


def middle_of(bucket: int) -> int:
    """What stands for the values of a bucket."""
    shift = max(bucket // _CUTS - 1, 0)
    low = (bucket - shift * _CUTS) << shift
    return low + ((1 << shift) - 1) // 2


def bucket_column(value: "Column") -> "Column":
    """`bucket_of` on Spark's side, in integers alone; null stays null."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - buckets are read where there is no Spark

    held = F.least(F.greatest(value, F.lit(0)), F.lit(MAX_VALUE)).cast("bigint")
    # Spark has no count of leading zeros. Half a step above the integer the logarithm is never near a whole number:
    # at MAX_VALUE it is 5e-12 away, and doubles are exact to 1e-14 there.
    highest_bit = F.floor(F.log2(held + F.lit(0.5))).cast("int")
    shift = F.greatest(highest_bit - _CUTS_BITS, F.lit(0))
    return F.when(value.isNotNull(), shift * _CUTS + F.call_function("shiftright", held, shift).cast("int"))


def middle_column(bucket: "Column") -> "Column":
    """`middle_of` on Spark's side."""
    from pyspark.sql import functions as F  # noqa: PLC0415

    shift = F.greatest(F.floor(bucket / _CUTS).cast("int") - 1, F.lit(0))
    low = F.call_function("shiftleft", (bucket - shift * _CUTS).cast("bigint"), shift)
    width = F.call_function("shiftleft", F.lit(1).cast("bigint"), shift)
    return low + F.call_function("shiftright", width - 1, F.lit(1))
