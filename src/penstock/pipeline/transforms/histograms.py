"""Histograms with fixed buckets: integers in, integers out, independent of the order of values.

Owns the bucket edges. Values below 64 have a bucket each; above, each power of two has 32 buckets of equal width, so
that the middle of a bucket is within 2 % of every value in it. A percentile is the middle of the bucket that holds the
value of that rank.
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
"""Number of buckets."""


def bucket_of(value: int) -> int:
    """The bucket of a value; negative values fall into the first."""
    value = min(max(value, 0), MAX_VALUE)
    shift = max(value.bit_length() - 1 - _CUTS_BITS, 0)
    return shift * _CUTS + (value >> shift)


def middle_of(bucket: int) -> int:
    """The value in the middle of a bucket, which stands for all its values."""
    shift = max(bucket // _CUTS - 1, 0)
    low = (bucket - shift * _CUTS) << shift
    return low + ((1 << shift) - 1) // 2


def bucket_column(value: "Column") -> "Column":
    """`bucket_of` as a Spark expression; null stays null."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - the report reads buckets without Spark

    held = F.least(F.greatest(value, F.lit(0)), F.lit(MAX_VALUE)).cast("bigint")
    # Spark has no count of leading zeros. Half a step above the integer the logarithm is never near a whole number:
    # at MAX_VALUE it is 5e-12 away, and doubles are exact to 1e-14 there.
    highest_bit = F.floor(F.log2(held + F.lit(0.5))).cast("int")
    shift = F.greatest(highest_bit - _CUTS_BITS, F.lit(0))
    return F.when(value.isNotNull(), shift * _CUTS + F.call_function("shiftright", held, shift).cast("int"))


def middle_column(bucket: "Column") -> "Column":
    """`middle_of` as a Spark expression."""
    from pyspark.sql import functions as F  # noqa: PLC0415

    shift = F.greatest(F.floor(bucket / _CUTS).cast("int") - 1, F.lit(0))
    low = F.call_function("shiftleft", (bucket - shift * _CUTS).cast("bigint"), shift)
    width = F.call_function("shiftleft", F.lit(1).cast("bigint"), shift)
    return low + F.call_function("shiftright", width - 1, F.lit(1))
