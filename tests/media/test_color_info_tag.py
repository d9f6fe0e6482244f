"""Colour and HDR facts of video METADATA packets."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.color_info import ColorInfo, MasteringDisplay, read_color_info

COLOR_INFO = bytes.fromhex("020009") + b"colorInfo"
OBJECT_END = bytes.fromhex("000009")


def key(name: str) -> bytes:
    return len(name).to_bytes(2, "big") + name.encode()


def number(value: float) -> bytes:
    return b"\x00" + struct.pack(">d", value)


def amf_object(marker: bytes = b"\x03", **members: bytes) -> bytes:
    return marker + b"".join(key(name) + value for name, value in members.items()) + OBJECT_END


def test_the_metadata_that_ffmpeg_writes_takes_colour_info_back() -> None:
    # The whole body of FFmpeg 7.0.2's message for a stream without colour facts: an empty colorConfig.
    body = bytes.fromhex("020009636f6c6f72496e666f03000b636f6c6f72436f6e66696703000009000009")
    assert read_color_info(body) == ColorInfo()


def test_hdr10_colour_info_by_its_bytes() -> None:
    config = "03 0008 6269744465707468 00 4024000000000000"  # bitDepth 10
    config += "000e 636f6c6f725072696d6172696573 00 4022000000000000"  # colorPrimaries 9
    config += "0017 7472616e7366657243686172616374657269737469 6373 00 4030000000000000"  # transferCharacteristics 16
    config += "0012 6d6174726978436f656666696369656e7473 00 4022000000000000 000009"  # matrixCoefficients 9
    body = COLOR_INFO + bytes.fromhex("03 000b 636f6c6f72436f6e666967" + config + "000009")
    assert read_color_info(body) == ColorInfo(
        bit_depth=10, color_primaries=9, transfer_characteristics=16, matrix_coefficients=9
    )


@pytest.mark.parametrize("marker", [b"\x03", b"\x08\x00\x00\x00\x02"])
def test_objects_and_ecma_arrays_tell_the_same(marker: bytes) -> None:
    light = amf_object(marker, maxFall=number(400.0), maxCLL=number(1000.0))
    display = amf_object(
        marker,
        redX=number(0.708),
        redY=number(0.292),
        greenX=number(0.17),
        greenY=number(0.797),
        blueX=number(0.131),
        blueY=number(0.046),
        whitePointX=number(0.3127),
        whitePointY=number(0.329),
        maxLuminance=number(1000.0),
        minLuminance=number(0.0001),
    )
    body = COLOR_INFO + amf_object(marker, hdrCll=light, hdrMdcv=display)
    assert read_color_info(body) == ColorInfo(
        max_frame_average_light=400.0,
        max_content_light=1000.0,
        mastering_display=MasteringDisplay(
            red_x=0.708,
            red_y=0.292,
            green_x=0.17,
            green_y=0.797,
            blue_x=0.131,
            blue_y=0.046,
            white_point_x=0.3127,
            white_point_y=0.329,
            max_luminance=1000.0,
            min_luminance=0.0001,
        ),
    )


@pytest.mark.parametrize("value", [b"\x06", b"\x05", amf_object(), amf_object(colorConfig=b"\x06", hdrCll=b"\x05")])
def test_undefined_null_and_empty_objects_take_colour_info_back(value: bytes) -> None:
    assert read_color_info(COLOR_INFO + value) == ColorInfo()


def test_other_names_are_passed_over() -> None:
    other = bytes.fromhex("020005") + b"other" + number(1.0)
    assert read_color_info(other) is None
    assert read_color_info(b"") is None
    info = amf_object(colorConfig=amf_object(bitDepth=number(8.0)))
    assert read_color_info(other + COLOR_INFO + info) == ColorInfo(bit_depth=8)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (number(1.0), "colour info: colorInfo is a float"),
        (amf_object(colorConfig=number(1.0)), "colour info: colorConfig is a float"),
        (amf_object(hdrCll=amf_object(maxFall=b"\x01\x01")), "colour info: maxFall is no finite number but a bool"),
        (
            amf_object(hdrCll=amf_object(maxCLL=number(float("inf")))),
            "colour info: maxCLL is no finite number but a float",
        ),
        (
            amf_object(colorConfig=amf_object(bitDepth=number(8.5))),
            "colour info: bitDepth is 8.5, not a whole number up to 255",
        ),
        (
            amf_object(colorConfig=amf_object(colorPrimaries=number(256.0))),
            "colour info: colorPrimaries is 256.0, not a whole number up to 255",
        ),
    ],
)
def test_values_of_another_type_are_refused(value: bytes, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_color_info(COLOR_INFO + value)
    assert str(caught.value) == message


def test_a_body_cut_inside_its_value_is_malformed() -> None:
    body = COLOR_INFO + amf_object(colorConfig=amf_object(bitDepth=number(10.0)))
    assert read_color_info(body) == ColorInfo(bit_depth=10)
    for size in range(len(COLOR_INFO) + 1, len(body)):
        with pytest.raises(MalformedMedia, match=f"colour info: no AMF in {size} bytes"):
            read_color_info(body[:size])


def test_a_name_without_a_value_tells_nothing() -> None:
    assert read_color_info(COLOR_INFO) is None


@given(st.binary(max_size=60))
@settings(max_examples=150)
def test_any_bytes_give_colour_info_or_malformed_media(rest: bytes) -> None:
    for body in (rest, COLOR_INFO + rest):
        try:
            info = read_color_info(body)
        except MalformedMedia:
            continue
        assert info is None or isinstance(info, ColorInfo)
