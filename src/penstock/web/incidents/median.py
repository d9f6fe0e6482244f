"""The median bitrate of a stream over what has passed of the hour.

Owns a histogram with the buckets of the pipeline's (32 to a power of two, so a median is within 2 %), for the same
figures afterwards. In the first minutes of an hour, those of the hour before count too.
"""

from typing import Final

_CUTS_BITS: Final = 5
_CUTS: Final = 1 << _CUTS_BITS
_HOUR_US: Final = 3_600_000_000
LEAST_SAMPLES: Final = 20
"""With fewer there is no telling what is usual."""
_ENOUGH_SAMPLES: Final = 300


class HourMedian:
    """Takes bitrates with their times."""

    __slots__ = ("_before", "_counts", "_hour", "_known", "_samples")

    def __init__(self) -> None:
        self._hour = 0
        self._counts: dict[int, int] = {}
        self._samples = 0
        self._before: dict[int, int] = {}
        self._known: int | None = None

    def add(self, bitrate_bps: int, at_us: int) -> None:
        """A sample with data."""
        hour = at_us // _HOUR_US
        if hour != self._hour:
            self._before = self._counts if hour == self._hour + 1 else {}
            self._hour, self._counts, self._samples = hour, {}, 0
        bucket = _bucket_of(bitrate_bps)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._samples += 1
        self._known = None

    @property
    def bps(self) -> int | None:
        """The middle of the median's bucket; None: too little has passed."""
        if self._known is None:
            counts = dict(self._counts)
            if self._samples < _ENOUGH_SAMPLES:
                for bucket, count in self._before.items():
                    counts[bucket] = counts.get(bucket, 0) + count
            self._known = _median_of(counts)
        return self._known


def _median_of(counts: dict[int, int]) -> int | None:
    total = sum(counts.values())
    if total < LEAST_SAMPLES:
        return None
    upto = 0
    for bucket in sorted(counts):
        upto += counts[bucket]
        if upto * 2 >= total:
            return _middle_of(bucket)
    return None


def _bucket_of(value: int) -> int:
    shift = max(value.bit_length() - 1 - _CUTS_BITS, 0)
    return shift * _CUTS + (value >> shift)


def _middle_of(bucket: int) -> int:
    shift = max(bucket // _CUTS - 1, 0)
    low = (bucket - shift * _CUTS) << shift
    return low + ((1 << shift) - 1) // 2
