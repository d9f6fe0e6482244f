"""What the tests of AMF have in common."""

import math
from typing import TypeAlias

from penstock.amf import AmfDate, AmfValue, TypedObject

Shape: TypeAlias = "tuple[str, object]"


def shape(value: AmfValue) -> Shape:
    """The value with its types, so that 1, 1.0 and True differ, an ECMA array is no dict, and NaN equals NaN."""
    kind = type(value).__name__
    if isinstance(value, float):
        return kind, "nan" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, AmfDate):
        return kind, (shape(value.epoch_ms), value.zone_minutes)
    if isinstance(value, dict):
        return kind, [(name, shape(member)) for name, member in value.items()]
    if isinstance(value, list):
        return kind, [shape(element) for element in value]
    if isinstance(value, TypedObject):
        return kind, (value.class_name, shape(value.members))
    return kind, value
