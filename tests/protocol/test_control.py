"""Control messages against literal payloads, whole messages as an independent reader sees them, and every refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.protocol.control import (
    Abort,
    Acknowledgement,
    BandwidthLimit,
    ControlMessage,
    SetBufferLength,
    SetChunkSize,
    SetPeerBandwidth,
    UnknownUserControl,
    UserControl,
    UserControlEvent,
    WindowAcknowledgementSize,
    read_control,
    write_control,
)
from penstock.protocol.message import Message
from tests.support.independent_rtmp import HANDSHAKE_BYTES, OracleMessage, read_messages

EXAMPLES: list[tuple[int, str, ControlMessage]] = [
    (1, "00000001", SetChunkSize(1)),
    (1, "00000080", SetChunkSize(128)),
    (1, "00001000", SetChunkSize(4096)),
    (1, "00010000", SetChunkSize(65536)),
    (1, "08000000", SetChunkSize(134217728)),
    (1, "7FFFFFFF", SetChunkSize(0x7FFFFFFF)),
    (2, "00000004", Abort(4)),
    (2, "0001003F", Abort(65599)),
    (3, "00000000", Acknowledgement(0)),
    (3, "000F4240", Acknowledgement(1000000)),
    (3, "FFFFFFFF", Acknowledgement(0xFFFFFFFF)),
    (4, "0000 00000001", UserControl(UserControlEvent.STREAM_BEGIN, 1)),
    (4, "0001 00000001", UserControl(UserControlEvent.STREAM_EOF, 1)),
    (4, "0002 00000001", UserControl(UserControlEvent.STREAM_DRY, 1)),
    (4, "0003 00000001 00000BB8", SetBufferLength(stream_id=1, buffer_ms=3000)),
    (4, "0003 00000001 02255100", SetBufferLength(stream_id=1, buffer_ms=36000000)),
    (4, "0004 00000001", UserControl(UserControlEvent.STREAM_IS_RECORDED, 1)),
    (4, "0006 0001E240", UserControl(UserControlEvent.PING_REQUEST, 123456)),
    (4, "0007 0001E240", UserControl(UserControlEvent.PING_RESPONSE, 123456)),
    (4, "001F 00000001", UserControl(UserControlEvent.BUFFER_EMPTY, 1)),
    (4, "0020 00000001", UserControl(UserControlEvent.BUFFER_READY, 1)),
    (4, "0005 00000001", UnknownUserControl(5, b"\x00\x00\x00\x01")),
    (4, "001A", UnknownUserControl(26, b"")),
    (4, "001B 0101", UnknownUserControl(27, b"\x01\x01")),
    (4, "FFFF 0102030405060708090A0B", UnknownUserControl(0xFFFF, bytes(range(1, 12)))),
    (5, "002625A0", WindowAcknowledgementSize(2500000)),
    (5, "004C4B40", WindowAcknowledgementSize(5000000)),
    (5, "FFFFFFFF", WindowAcknowledgementSize(0xFFFFFFFF)),
    (6, "002625A0 00", SetPeerBandwidth(2500000, BandwidthLimit.HARD)),
    (6, "002625A0 01", SetPeerBandwidth(2500000, BandwidthLimit.SOFT)),
    (6, "002625A0 02", SetPeerBandwidth(2500000, BandwidthLimit.DYNAMIC)),
]

WHOLE_MESSAGES: list[tuple[str, ControlMessage]] = [
    ("02 000000 000004 01 00000000 00001000", SetChunkSize(4096)),
    ("02 000000 000004 05 00000000 002625A0", WindowAcknowledgementSize(2500000)),
    ("02 000000 000005 06 00000000 002625A002", SetPeerBandwidth(2500000, BandwidthLimit.DYNAMIC)),
]


@pytest.mark.parametrize(("type_id", "payload", "control"), EXAMPLES)
def test_a_payload_gives_its_value(type_id: int, payload: str, control: ControlMessage) -> None:
    assert read_control(type_id, bytes.fromhex(payload)) == control


@pytest.mark.parametrize(("type_id", "payload", "control"), EXAMPLES)
def test_a_value_gives_its_payload_on_chunk_stream_2_and_message_stream_0(
    type_id: int, payload: str, control: ControlMessage
) -> None:
    assert write_control(control) == Message(type_id, 0, 0, bytes.fromhex(payload), 2)


@pytest.mark.parametrize(("chunk", "control"), WHOLE_MESSAGES)
def test_a_whole_message_is_what_another_reader_takes_it_for(chunk: str, control: ControlMessage) -> None:
    (seen,) = read_messages(b"\x03" + bytes(HANDSHAKE_BYTES - 1) + bytes.fromhex(chunk))
    written = write_control(control)
    assert read_control(seen.type_id, seen.payload) == control
    assert seen == OracleMessage(
        written.chunk_stream_id, written.timestamp_ms, written.type_id, written.stream_id, written.payload
    )


def test_a_control_message_may_have_a_time() -> None:
    assert write_control(Abort(4), 0xFFFFFFFF) == Message(2, 0xFFFFFFFF, 0, b"\x00\x00\x00\x04", 2)


@pytest.mark.parametrize(
    ("type_id", "payload", "control"),
    [example for example in EXAMPLES if not isinstance(example[2], UnknownUserControl)],
)
def test_bytes_behind_a_payload_are_ignored(type_id: int, payload: str, control: ControlMessage) -> None:
    assert read_control(type_id, bytes.fromhex(payload) + b"\xff\xff\xff\xff\xff") == control


@pytest.mark.parametrize(
    ("type_id", "payload", "message"),
    [
        (1, "00000000", "Set Chunk Size 0x0 is not in 1..0x7fffffff"),
        (1, "80000000", "Set Chunk Size 0x80000000 is not in 1..0x7fffffff"),
        (1, "80001000", "Set Chunk Size 0x80001000 is not in 1..0x7fffffff"),
        (1, "FFFFFFFF", "Set Chunk Size 0xffffffff is not in 1..0x7fffffff"),
        (5, "00000000", "Window Acknowledgement Size 0"),
        (6, "00000000 02", "Set Peer Bandwidth 0"),
        (6, "002625A0 03", "Set Peer Bandwidth limit type 3 is not in 0..2"),
        (6, "002625A0 FF", "Set Peer Bandwidth limit type 255 is not in 0..2"),
        (0, "00000001", "message type 0 is no control message"),
        (7, "00000001", "message type 7 is no control message"),
        (20, "00000001", "message type 20 is no control message"),
    ],
)
def test_a_value_out_of_bounds_breaks_the_protocol(type_id: int, payload: str, message: str) -> None:
    with pytest.raises(ProtocolViolation) as refusal:
        read_control(type_id, bytes.fromhex(payload))
    assert str(refusal.value) == f"control: {message}"


@pytest.mark.parametrize(
    ("type_id", "payload", "message"),
    [
        (1, "", "message type 1 has 0 of 4 bytes"),
        (1, "000010", "message type 1 has 3 of 4 bytes"),
        (2, "000004", "message type 2 has 3 of 4 bytes"),
        (3, "0F4240", "message type 3 has 3 of 4 bytes"),
        (4, "", "User Control has 0 of 2 bytes"),
        (4, "00", "User Control has 1 of 2 bytes"),
        (4, "0000", "User Control event 0 has 2 of 6 bytes"),
        (4, "0006 0001E2", "User Control event 6 has 5 of 6 bytes"),
        (4, "0003 00000001", "User Control event 3 has 6 of 10 bytes"),
        (4, "0003 00000001 00000B", "User Control event 3 has 9 of 10 bytes"),
        (4, "0020", "User Control event 32 has 2 of 6 bytes"),
        (5, "2625A0", "message type 5 has 3 of 4 bytes"),
        (6, "2625A0", "message type 6 has 3 of 4 bytes"),
        (6, "002625A0", "Set Peer Bandwidth has 4 of 5 bytes"),
    ],
)
def test_a_short_payload_breaks_the_protocol(type_id: int, payload: str, message: str) -> None:
    with pytest.raises(ProtocolViolation) as refusal:
        read_control(type_id, bytes.fromhex(payload))
    assert str(refusal.value) == f"control: {message}"


@given(st.integers(0, 255) | st.integers(1, 6), st.binary(max_size=12))
def test_any_payload_gives_a_value_that_comes_back_or_breaks_the_protocol(type_id: int, payload: bytes) -> None:
    try:
        control = read_control(type_id, payload)
    except ProtocolViolation:
        return
    written = write_control(control)
    assert written.type_id == type_id
    assert payload.startswith(written.payload)
