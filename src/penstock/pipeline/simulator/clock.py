"""Bytes and media time of each simulated stream at any moment.

A channel's broadcast is a list of intervals with a constant rate each, so a counter at any moment is one lookup without
running state. All integers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_TIME_BITS: Final = 40
_SECOND_US: Final = 1_000_000
# By how many thousandths the bytes of a second exceed the rate, by second of media time. Neighbours differ by less than
# the lowest rate of a running stream, so counters never decrease.
_WAVE_PERMILLE: Final = np.array([(each * 37) % 64 * 150 // 64 for each in range(64)], np.int64)


@dataclass(frozen=True, slots=True)
class OnAir:
    """A time in which a channel is on the air."""

    channel: int
    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class Dip:
    """A time in which a channel's rate is lower; at 0 nothing arrives."""

    channel: int
    from_us: int
    to_us: int
    rate_permille: int


@dataclass(frozen=True, slots=True)
class ChannelClock:
    """The intervals of all channels, sorted by channel and time."""

    begins_us: int
    rate: Ints
    """Bytes per second, by channel."""
    _key: Ints
    _bytes_before: Ints
    _media_before_us: Ints
    _stretch_rate: Ints
    _is_running: Ints

    def media_us(self, channel: Ints, at_us: Ints) -> Ints:
        """Media time broadcast so far."""
        row, into_us = self._locate(channel, at_us)
        media_us: Ints = self._media_before_us[row] + into_us * self._is_running[row]
        return media_us

    def bytes_so_far(self, channel: Ints, at_us: Ints) -> Ints:
        """Bytes received so far."""
        row, into_us = self._locate(channel, at_us)
        media_us = self._media_before_us[row] + into_us * self._is_running[row]
        second, fraction_us = media_us // _SECOND_US, media_us % _SECOND_US
        here, there = _WAVE_PERMILLE[(second + channel) % 64], _WAVE_PERMILLE[(second + 1 + channel) % 64]
        wave = self.rate[channel] * (here * (_SECOND_US - fraction_us) + there * fraction_us) // (1000 * _SECOND_US)
        so_far: Ints = self._bytes_before[row] + into_us * self._stretch_rate[row] // _SECOND_US + wave
        return so_far

    def _locate(self, channel: Ints, at_us: Ints) -> tuple[Ints, Ints]:
        since_us = np.maximum(at_us - self.begins_us, 0)
        row = np.searchsorted(self._key, (channel << _TIME_BITS) | since_us, side="right") - 1
        return row, since_us - (self._key[row] & ((1 << _TIME_BITS) - 1))


def channel_clock(begins_us: int, rate: Ints, broadcasts: Iterable[OnAir], dips: Iterable[Dip]) -> ChannelClock:
    """The clock of these broadcasts, with their dips."""
    edges: list[list[tuple[int, int | None, int | None]]] = [[(begins_us, 0, 1000)] for _ in rate]
    for each in broadcasts:
        edges[each.channel] += [(each.from_us, 1, None), (each.to_us, 0, None)]
    for dip in dips:
        edges[dip.channel] += [(dip.from_us, None, dip.rate_permille), (dip.to_us, None, 1000)]
    rows: list[tuple[int, int, int, int, int]] = []
    for channel, changes in enumerate(edges):
        at_us, is_on_air, permille, bytes_before, media_before_us = begins_us, 0, 1000, 0, 0
        for edge_us, on_air, new_permille in sorted(changes, key=lambda change: change[0]):
            stretch_rate, is_running = _rate(int(rate[channel]), is_on_air, permille)
            bytes_before += (edge_us - at_us) * stretch_rate // _SECOND_US
            media_before_us += (edge_us - at_us) * is_running
            at_us = edge_us
            is_on_air = is_on_air if on_air is None else on_air
            permille = permille if new_permille is None else new_permille
            key = (channel << _TIME_BITS) | (edge_us - begins_us)
            rows.append((key, bytes_before, media_before_us, *_rate(int(rate[channel]), is_on_air, permille)))
    return ChannelClock(begins_us, rate, *(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def _rate(rate: int, is_on_air: int, permille: int) -> tuple[int, int]:
    return rate * permille // 1000 * is_on_air, int(bool(is_on_air and permille))
