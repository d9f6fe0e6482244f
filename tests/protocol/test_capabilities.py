"""What peers say in connect, as literal properties and as FFmpeg 7 really sends it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amf import AmfValue, EcmaArray, read_amf0_value
from penstock.protocol.capabilities import (
    RELAY_CAPABILITIES,
    Capabilities,
    CapsEx,
    FourCcInfo,
    VideoFunction,
    read_capabilities,
)
from penstock.protocol.command import Connect
from penstock.protocol.command_codec import read_command
from tests.support.golden import golden_bytes
from tests.support.independent_rtmp import AMF0_COMMAND, read_messages

four_ccs = st.sampled_from(["*", "av01", "vp09", "hvc1", "avc1", "Opus", "fLaC", "mp4a"])
infos = st.dictionaries(four_ccs, st.integers(1, 7).map(FourCcInfo))


def capabilities_in(session: str) -> Capabilities:
    messages = read_messages(golden_bytes(f"sessions/{session}.client.bin"))
    connect = read_command(next(each.payload for each in messages if each.type_id == AMF0_COMMAND))
    assert isinstance(connect, Connect)
    return read_capabilities(connect.properties)


def test_a_peer_that_says_nothing_has_no_capabilities() -> None:
    nothing = read_capabilities({"app": "live", "tcUrl": "rtmp://host/live", "capabilities": 15.0})
    assert nothing == Capabilities()
    assert not nothing.is_enhanced
    assert nothing.video_info("av01") is FourCcInfo.NONE
    assert nothing.to_properties() == {}


def test_ffmpeg_7_lists_what_it_was_told_to_send() -> None:
    said = capabilities_in("ffmpeg7_publish_hevc")
    assert said == Capabilities(four_cc_list=("hvc1", "av01", "vp09"))
    assert said.is_enhanced
    assert said.video_info("av01") == FourCcInfo.CAN_DECODE
    assert said.video_info("vvc1") == FourCcInfo.NONE


def test_obs_29_says_nothing() -> None:
    assert capabilities_in("obs_publish") == Capabilities()


def test_video_function_alone_is_older_than_enhanced_rtmp() -> None:
    said = capabilities_in("ffmpeg_play")
    assert said == Capabilities(video_function=VideoFunction.CLIENT_SEEK)
    assert not said.is_enhanced


def test_every_property_is_read() -> None:
    said = read_capabilities(
        {
            "fourCcList": ["av01", "*"],
            "videoFourCcInfoMap": {"*": 4.0, "hvc1": 5.0},
            "audioFourCcInfoMap": EcmaArray({"Opus": 3.0}),
            "capsEx": 15.0,
            "videoFunction": 14.0,
        }
    )
    assert said.four_cc_list == ("av01", "*")
    assert said.video_four_cc == {"*": FourCcInfo.CAN_FORWARD, "hvc1": FourCcInfo.CAN_DECODE | FourCcInfo.CAN_FORWARD}
    assert said.audio_four_cc == {"Opus": FourCcInfo.CAN_DECODE | FourCcInfo.CAN_ENCODE}
    assert said.caps_ex == CapsEx.RECONNECT | CapsEx.MULTITRACK | CapsEx.MOD_EX | CapsEx.NANOSECOND_OFFSET
    assert said.video_function == (VideoFunction.HDR | VideoFunction.METADATA_PACKETS | VideoFunction.LARGE_SCALE_TILE)


def test_a_catch_all_adds_to_what_a_codec_says_of_itself() -> None:
    said = Capabilities(
        video_four_cc={"*": FourCcInfo.CAN_FORWARD, "av01": FourCcInfo.CAN_DECODE},
        audio_four_cc={"*": FourCcInfo.CAN_ENCODE},
    )
    assert said.video_info("av01") == FourCcInfo.CAN_DECODE | FourCcInfo.CAN_FORWARD
    assert said.video_info("hvc1") == FourCcInfo.CAN_FORWARD
    assert said.audio_info("Opus") == FourCcInfo.CAN_ENCODE


def test_a_star_in_the_list_takes_any_codec() -> None:
    said = Capabilities(four_cc_list=("*",))
    assert said.video_info("av01") == FourCcInfo.CAN_DECODE
    assert said.audio_info("fLaC") == FourCcInfo.CAN_DECODE


@pytest.mark.parametrize(
    "said",
    [
        Capabilities(four_cc_list=("av01",)),
        Capabilities(video_four_cc={"*": FourCcInfo.CAN_FORWARD}),
        Capabilities(audio_four_cc={"*": FourCcInfo.CAN_FORWARD}),
        Capabilities(caps_ex=CapsEx.RECONNECT),
    ],
)
def test_any_one_announcement_makes_a_peer_enhanced(said: Capabilities) -> None:
    assert said.is_enhanced


@pytest.mark.parametrize(
    "properties",
    [
        {"fourCcList": "av01"},
        {"fourCcList": {"0": "av01"}},
        {"fourCcList": [1.0, None, ["av01"]]},
        {"videoFourCcInfoMap": ["av01"]},
        {"videoFourCcInfoMap": {"av01": "4", "hvc1": None, "vp09": 0.0, "vp08": 8.0}},
        {"audioFourCcInfoMap": 4.0},
        {"capsEx": "15"},
        {"capsEx": 16.0},
        {"capsEx": 2.5},
        {"capsEx": -1.0},
        {"capsEx": math.nan},
        {"capsEx": math.inf},
        {"capsEx": 4294967297.0},
        {"videoFunction": {"hdr": True}},
    ],
)
def test_what_has_the_wrong_type_or_unknown_bits_was_not_said(properties: dict[str, AmfValue]) -> None:
    assert read_capabilities(properties) == Capabilities()


def test_unknown_bits_and_entries_leave_the_known_ones_alone() -> None:
    said = read_capabilities({"fourCcList": ["av01", 7.0], "videoFourCcInfoMap": {"*": 252.0}, "capsEx": 4294967281.0})
    assert said == Capabilities(("av01",), {"*": FourCcInfo.CAN_FORWARD}, caps_ex=CapsEx.RECONNECT)


def test_a_relay_forwards_any_codec_and_handles_every_extended_feature() -> None:
    said = RELAY_CAPABILITIES.to_properties()
    assert said == {"videoFourCcInfoMap": {"*": 4.0}, "audioFourCcInfoMap": {"*": 4.0}, "capsEx": 15.0}
    payload = bytes.fromhex(
        "03"
        "0012 766964656F466F75724363496E666F4D6170 03 0001 2A 00 4010000000000000 000009"
        "0012 617564696F466F75724363496E666F4D6170 03 0001 2A 00 4010000000000000 000009"
        "0006 636170734578 00 402E000000000000"
        "000009"
    )
    assert read_amf0_value(payload) == (said, len(payload))


@given(
    st.builds(
        Capabilities,
        st.lists(four_ccs, max_size=4).map(tuple),
        infos,
        infos,
        st.integers(0, 15).map(CapsEx),
        st.integers(0, 15).map(VideoFunction),
    )
)
def test_what_is_said_is_understood(said: Capabilities) -> None:
    assert read_capabilities(said.to_properties()) == said
