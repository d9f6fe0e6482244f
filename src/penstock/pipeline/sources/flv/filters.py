"""Filters that Spark pushes into the `flv` source: which files and which tags need not become rows.

Owns the translation of Spark's filters. Spark applies every filter again, so one that is not understood here costs time
and never a row; a row is left out only if a filter is known to be false for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from penstock.media.flv import AUDIO_TAG, VIDEO_TAG
from penstock.pipeline.sources.flv.tag_traits import KINDS

_FILE_COLUMNS: Final = frozenset({"path", "app", "stream", "recording_id", "segment"})
_UNBOUNDED_MS: Final = 2**62


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """What rows must be like. `on_files` are filters on columns that are the same in all rows of a file."""

    on_files: tuple[Filter, ...] = ()
    kinds: frozenset[str] = field(default=frozenset(KINDS))
    is_key: bool | None = None
    from_ms: int = -_UNBOUNDED_MS
    to_ms: int = _UNBOUNDED_MS
    may_be_damage: bool = True
    """Whether rows of damage are wanted, which have nulls in the columns of tags."""

    def wants_file(self, values: Mapping[str, object]) -> bool:
        """Whether a file whose rows have these values may have rows that are wanted."""
        return all(_may_hold(each, values[each.attribute[0]]) for each in self.on_files)  # type: ignore[attr-defined]

    def wanted_before_reading(self, kinds: NDArray[np.uint8], times_ms: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which tags are worth a look into their payload; None: all of them."""
        is_of_any_time = self.from_ms == -_UNBOUNDED_MS and self.to_ms == _UNBOUNDED_MS
        if is_of_any_time and len(self.kinds) == len(KINDS):
            return None
        is_wanted = (times_ms >= self.from_ms) & (times_ms <= self.to_ms)
        is_video, is_audio = kinds == VIDEO_TAG, kinds == AUDIO_TAG
        for kind, is_kind in (("video", is_video), ("audio", is_audio), ("data", ~(is_video | is_audio))):
            if kind not in self.kinds:
                is_wanted &= ~is_kind
        return is_wanted


NO_FILTERS: Final = PushedFilters()


def pushed(filters: Iterable[Filter]) -> PushedFilters:
    """What all of these filters together ask for, as far as it is understood."""
    on_files: list[Filter] = []
    kinds, is_key, may_be_damage = set(KINDS), None, True
    from_ms, to_ms = -_UNBOUNDED_MS, _UNBOUNDED_MS
    for each in filters:
        match each:
            case EqualTo(("kind",), str(value)):
                kinds &= {value}
            case In(("kind",), values):
                kinds &= set(values)
            case EqualTo(("is_key",), bool(value)):
                is_key = value
            case EqualTo(("dts_ms",), int(value)):
                from_ms, to_ms = max(from_ms, value), min(to_ms, value)
            case GreaterThan(("dts_ms",), int(value)) | GreaterThanOrEqual(("dts_ms",), int(value)):
                from_ms = max(from_ms, value)
            case LessThan(("dts_ms",), int(value)) | LessThanOrEqual(("dts_ms",), int(value)):
                to_ms = min(to_ms, value)
            case IsNotNull(("kind" | "is_key" | "dts_ms",)):
                pass
            case _:
                if _is_on_files(each):
                    on_files.append(each)
                continue
        # A row of damage has nulls in all these columns, and no comparison holds for null.
        may_be_damage = False
    return PushedFilters(tuple(on_files), frozenset(kinds), is_key, from_ms, to_ms, may_be_damage)


def _is_on_files(each: Filter) -> bool:
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    return len(attribute) == 1 and attribute[0] in _FILE_COLUMNS


def _may_hold(each: Filter, value: object) -> bool:
    match each:
        case EqualTo(_, wanted):
            return value is not None and bool(value == wanted)
        case EqualNullSafe(_, wanted):
            return bool(value == wanted)
        case In(_, wanted):
            return value is not None and value in wanted
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case StringStartsWith(_, wanted):
            return isinstance(value, str) and value.startswith(wanted)
        case StringEndsWith(_, wanted):
            return isinstance(value, str) and value.endswith(wanted)
        case StringContains(_, wanted):
            return isinstance(value, str) and wanted in value
    return True
