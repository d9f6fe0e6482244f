"""Colour and HDR facts out of video METADATA packets (Enhanced RTMP v2, "Metadata Frame").

Owns the meaning of `colorInfo`; AMF itself is read by `penstock.amf`. Other names in the packet are passed over.
Refuses values of the wrong type with `MalformedMedia`; numbers are kept as they came, as encoders send 0 for "unset".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.amf import UNDEFINED, read_amf0_values
from penstock.errors import MalformedAmf, MalformedMedia

_LAYER: Final = "colour info"


@dataclass(frozen=True, slots=True)
class MasteringDisplay:
    """The display that the picture was graded on (SMPTE ST 2086): chromaticities, and luminance in cd/m2."""

    red_x: float | None
    red_y: float | None
    green_x: float | None
    green_y: float | None
    blue_x: float | None
    blue_y: float | None
    white_point_x: float | None
    white_point_y: float | None
    max_luminance: float | None
    min_luminance: float | None


@dataclass(frozen=True, slots=True)
class ColorInfo:
    """Colour of one track from here on; it replaces the last one. With every field None it takes that one back.

    Primaries, transfer and matrix are the numbers of H.273; light levels are in cd/m2.
    """

    bit_depth: int | None = None
    color_primaries: int | None = None
    transfer_characteristics: int | None = None
    matrix_coefficients: int | None = None
    max_frame_average_light: float | None = None
    max_content_light: float | None = None
    mastering_display: MasteringDisplay | None = None


def read_color_info(body: bytes) -> ColorInfo | None:
    """Read the body of a METADATA packet; None when it holds no `colorInfo`."""
    try:
        values = read_amf0_values(body)
    except MalformedAmf as error:
        raise MalformedMedia(_LAYER, f"no AMF in {len(body)} bytes: {error.detail}") from error
    for name, value in zip(values[::2], values[1::2], strict=False):
        if name == "colorInfo":
            return _color_info_of(value)
    return None


def _color_info_of(value: object) -> ColorInfo:
    if value is UNDEFINED or value is None:
        return ColorInfo()
    if not isinstance(value, Mapping):
        raise MalformedMedia(_LAYER, f"colorInfo is a {type(value).__name__}")
    config = _object(value, "colorConfig")
    light = _object(value, "hdrCll")
    display = _object(value, "hdrMdcv")
    return ColorInfo(
        bit_depth=_code(config, "bitDepth"),
        color_primaries=_code(config, "colorPrimaries"),
        transfer_characteristics=_code(config, "transferCharacteristics"),
        matrix_coefficients=_code(config, "matrixCoefficients"),
        max_frame_average_light=_number(light, "maxFall"),
        max_content_light=_number(light, "maxCLL"),
        mastering_display=_mastering_display_of(display) if display else None,
    )


def _mastering_display_of(display: Mapping[str, object]) -> MasteringDisplay:
    return MasteringDisplay(
        red_x=_number(display, "redX"),
        red_y=_number(display, "redY"),
        green_x=_number(display, "greenX"),
        green_y=_number(display, "greenY"),
        blue_x=_number(display, "blueX"),
        blue_y=_number(display, "blueY"),
        white_point_x=_number(display, "whitePointX"),
        white_point_y=_number(display, "whitePointY"),
        max_luminance=_number(display, "maxLuminance"),
        min_luminance=_number(display, "minLuminance"),
    )


def _object(parent: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = parent.get(name)
    if value is None or value is UNDEFINED:
        return {}
    if not isinstance(value, Mapping):
        raise MalformedMedia(_LAYER, f"{name} is a {type(value).__name__}")
    return value


def _number(parent: Mapping[str, object], name: str) -> float | None:
    value = parent.get(name)
    if value is None or value is UNDEFINED:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MalformedMedia(_LAYER, f"{name} is no finite number but a {type(value).__name__}")
    return float(value)


def _code(parent: Mapping[str, object], name: str) -> int | None:
    number = _number(parent, name)
    if number is None:
        return None
    if not 0 <= number <= 255 or number != int(number):
        raise MalformedMedia(_LAYER, f"{name} is {number}, not a whole number up to 255")
    return int(number)
