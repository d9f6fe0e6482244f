"""Data messages: literal payloads, and those of FFmpeg, OBS, GStreamer and nginx as they were recorded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amf import AmfValue, EcmaArray
from penstock.errors import MalformedAmf
from penstock.protocol.data import (
    ClearDataFrame,
    DataMessage,
    OnMetaData,
    OtherData,
    RelayedData,
    SampleAccess,
    SetDataFrame,
    read_data,
    read_relayed,
    write_data,
)
from tests.support.golden import golden_bytes
from tests.support.independent_rtmp import AMF0_DATA, read_messages

SET = b"\x02\x00\x0d@setDataFrame"
CLEAR = b"\x02\x00\x0f@clearDataFrame"
META = b"\x02\x00\x0aonMetaData"
WIDTH = b"\x00\x05width\x00\x40\x94\x00\x00\x00\x00\x00\x00"
END = b"\x00\x00\x09"
AS_ARRAY = b"\x08\x00\x00\x00\x01" + WIDTH + END
AS_OBJECT = b"\x03" + WIDTH + END
SAMPLE_ACCESS = b"\x02\x00\x11|RtmpSampleAccess\x01\x01\x01\x01"
TEXT_DATA = b"\x02\x00\x0aonTextData\x03\x00\x04text\x02\x00\x05hello" + END

EXAMPLES: list[tuple[bytes, DataMessage]] = [
    (META + AS_ARRAY, OnMetaData({"width": 1280.0})),
    (SET + META + AS_ARRAY, SetDataFrame("onMetaData", (EcmaArray({"width": 1280.0}),))),
    (SET + META + AS_OBJECT, SetDataFrame("onMetaData", ({"width": 1280.0},))),
    (SET + META, SetDataFrame("onMetaData", ())),
    (CLEAR + META, ClearDataFrame("onMetaData")),
    (SAMPLE_ACCESS, SampleAccess(allows_audio=True, allows_video=True)),
    (b"\x02\x00\x11|RtmpSampleAccess\x01\x00\x01\x01", SampleAccess(allows_audio=False, allows_video=True)),
    (TEXT_DATA, OtherData("onTextData", ({"text": "hello"},))),
    (b"\x02\x00\x0aonCuePoint", OtherData("onCuePoint", ())),
    (b"\x02\x00\x00", OtherData("", ())),
]

# What looks like one of the known messages and is none.
LOOKALIKES: list[tuple[bytes, DataMessage]] = [
    (META, OtherData("onMetaData", ())),
    (META + b"\x05", OtherData("onMetaData", (None,))),
    (META + AS_ARRAY + b"\x05", OtherData("onMetaData", (EcmaArray({"width": 1280.0}), None))),
    (SET, OtherData("@setDataFrame", ())),
    (SET + b"\x05", OtherData("@setDataFrame", (None,))),
    (CLEAR, OtherData("@clearDataFrame", ())),
    (b"\x02\x00\x11|RtmpSampleAccess\x01\x01", OtherData("|RtmpSampleAccess", (True,))),
    (b"\x02\x00\x11|RtmpSampleAccess\x01\x01\x05", OtherData("|RtmpSampleAccess", (True, None))),
    (SAMPLE_ACCESS + b"\x05", OtherData("|RtmpSampleAccess", (True, True, None))),
]


def first_data(session: str, direction: str = "client") -> bytes:
    messages = read_messages(golden_bytes(f"sessions/{session}.{direction}.bin"))
    return next(each.payload for each in messages if each.type_id == AMF0_DATA)


@pytest.mark.parametrize(("payload", "message"), EXAMPLES + LOOKALIKES)
def test_a_payload_gives_its_message(payload: bytes, message: DataMessage) -> None:
    assert read_data(payload) == message


@pytest.mark.parametrize(("payload", "message"), EXAMPLES + LOOKALIKES)
def test_a_message_gives_its_payload(payload: bytes, message: DataMessage) -> None:
    assert write_data(message) == payload


def test_metadata_is_written_as_an_ecma_array_even_if_it_came_as_an_object() -> None:
    metadata = read_data(META + AS_OBJECT)
    assert metadata == OnMetaData({"width": 1280.0})
    assert write_data(metadata) == META + AS_ARRAY


def test_metadata_that_says_nothing_is_an_empty_array() -> None:
    assert write_data(OnMetaData({})) == META + b"\x08\x00\x00\x00\x00" + END


@pytest.mark.parametrize(
    ("payload", "relayed"),
    [
        (SET + META + AS_ARRAY, RelayedData("onMetaData", META + AS_ARRAY)),
        (SET + META + AS_OBJECT, RelayedData("onMetaData", META + AS_OBJECT)),
        (META + AS_ARRAY, RelayedData("onMetaData", META + AS_ARRAY)),
        (SET + TEXT_DATA, RelayedData("onTextData", TEXT_DATA)),
        (TEXT_DATA, RelayedData("onTextData", TEXT_DATA)),
        (CLEAR + META, RelayedData("onMetaData", META, clears=True)),
        (CLEAR + META + b"\x05", RelayedData("onMetaData", META + b"\x05", clears=True)),
        (SAMPLE_ACCESS, RelayedData("|RtmpSampleAccess", SAMPLE_ACCESS)),
        # A long string, and one that is no UTF-8: both forms come out as they came in.
        (b"\x0c\x00\x00\x00\x0d@setDataFrame" + META, RelayedData("onMetaData", META)),
        (SET + b"\x02\x00\x02\xd6\xd0", RelayedData("\udcd6\udcd0", b"\x02\x00\x02\xd6\xd0")),
    ],
)
def test_what_is_addressed_to_the_server_is_taken_off_to_the_byte(payload: bytes, relayed: RelayedData) -> None:
    assert read_relayed(payload) == relayed


def test_values_that_nobody_can_read_are_passed_on() -> None:
    assert read_relayed(SET + META + b"\xff\xff") == RelayedData("onMetaData", META + b"\xff\xff")


@pytest.mark.parametrize(
    ("session", "last_name", "last_value"),
    [
        ("ffmpeg_publish", "filesize", 0.0),
        ("ffmpeg7_publish_hevc", "filesize", 0.0),
        ("obs_publish", "encoder", "obs-output module (libobs version 29.0.2.1-1+b1)"),
        ("gstreamer_rtmp2sink_publish", "creationdate", "Sun Nov 15 08:50:18 2026"),
    ],
)
def test_real_encoders_metadata_reaches_viewers_to_the_byte(session: str, last_name: str, last_value: AmfValue) -> None:
    payload = first_data(session)
    assert payload[:29] == SET + META
    relayed = read_relayed(payload)
    assert relayed == RelayedData("onMetaData", payload[16:])
    metadata = read_data(relayed.payload)
    assert isinstance(metadata, OnMetaData)
    assert list(metadata.properties.items())[-1] == (last_name, last_value)
    assert write_data(metadata) == relayed.payload


def test_obs_metadata_has_literal_values() -> None:
    message = read_data(first_data("obs_publish"))
    assert isinstance(message, SetDataFrame)
    assert message.name == "onMetaData"
    (properties,) = message.values
    assert isinstance(properties, EcmaArray)
    assert list(properties.items())[:7] == [
        ("duration", 0.0),
        ("fileSize", 0.0),
        ("width", 160.0),
        ("height", 90.0),
        ("videocodecid", 7.0),
        ("videodatarate", 60.0),
        ("framerate", 10.0),
    ]


def test_nginx_allows_samples_first() -> None:
    payload = first_data("ffmpeg_play", "server")
    assert payload == SAMPLE_ACCESS
    assert read_data(payload) == SampleAccess(allows_audio=True, allows_video=True)


def test_nginx_pushes_metadata_as_an_object_without_set_data_frame() -> None:
    payload = first_data("nginx_push")
    assert payload[13] == 0x03
    assert read_relayed(payload) == RelayedData("onMetaData", payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x05",
        b"\x00\x3f\xf0\x00\x00\x00\x00\x00\x00",
        AS_OBJECT,
        b"\x0a\x00\x00\x00\x00",
        b"\x02\x00\x0aonMeta",
        b"\xff",
    ],
)
def test_a_payload_without_a_name_is_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedAmf):
        read_data(payload)
    with pytest.raises(MalformedAmf):
        read_relayed(payload)


@pytest.mark.parametrize("payload", [SET, CLEAR, SET + b"\x05", CLEAR + AS_OBJECT, SET + b"\x02\x00\x0aonMeta"])
def test_there_is_nothing_to_relay_without_a_second_name(payload: bytes) -> None:
    with pytest.raises(MalformedAmf):
        read_relayed(payload)


@pytest.mark.parametrize("payload", [META + AS_ARRAY[:-4], META + AS_OBJECT[:-1], SET + META + b"\xff"])
def test_damaged_values_are_malformed_for_who_reads_them(payload: bytes) -> None:
    with pytest.raises(MalformedAmf):
        read_data(payload)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("08 00000001 0001 61 07 0000 000009", id="circular"),
        pytest.param("03 0001 61 FF 000009", id="an unknown marker"),
        pytest.param("03 0001 61", id="torn"),
        pytest.param("0A 00000001" * 200, id="too deep"),
        pytest.param("05" * 20_000, id="too many"),
    ],
)
@pytest.mark.parametrize("head", [b"", SET])
def test_what_cannot_be_decoded_is_relayed_as_it_came(head: bytes, value: str) -> None:
    payload = META + bytes.fromhex(value)
    assert read_relayed(head + payload) == RelayedData("onMetaData", payload)


@pytest.mark.parametrize("head", [b"", SET, CLEAR])
def test_a_name_may_have_1024_bytes(head: bytes) -> None:
    assert read_relayed(head + b"\x0c\x00\x00\x04\x00" + b"n" * 1024).name == "n" * 1024
    with pytest.raises(MalformedAmf):
        read_relayed(head + b"\x0c\x00\x00\x04\x01" + b"n" * 1025)
    with pytest.raises(MalformedAmf):
        read_relayed(head + b"\x0c\x00\xff\xff\xff" + b"n" * 0xFFFFFF)


def test_a_refusal_names_the_layer_and_the_length() -> None:
    with pytest.raises(MalformedAmf, match=r"^data: a payload of 1 bytes does not start with a name$"):
        read_data(b"\x05")
    with pytest.raises(MalformedAmf, match=r"^data: a payload of 1 bytes does not start with a name$"):
        read_relayed(SET + b"\x05")


heads = st.sampled_from([b"", SET, CLEAR, META, SET + META, CLEAR + META, SAMPLE_ACCESS[:20]])


@given(heads, st.binary(max_size=40))
def test_any_payload_gives_a_message_or_is_malformed(head: bytes, rest: bytes) -> None:
    try:
        relayed = read_relayed(head + rest)
    except MalformedAmf:
        pass
    else:
        assert (head + rest).endswith(relayed.payload)
    try:
        message = read_data(head + rest)
    except MalformedAmf:
        return
    written = write_data(message)
    assert write_data(read_data(written)) == written
