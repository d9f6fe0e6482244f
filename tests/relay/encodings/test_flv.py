"""Frames as FLV tags and as messages of a WebSocket, in literal bytes."""

import pytest

from penstock.media.frame import FrameKind
from penstock.relay.encodings.flv import FlvEncoding, message_head


def test_a_frame_is_a_tag_with_its_back_pointer() -> None:
    encode = FlvEncoding().encoders[FrameKind.VIDEO]
    assert encode(0x0102_0304, b"\x17\x01") == bytes.fromhex("09 000002 020304 01 000000 1701 0000000d")


def test_in_a_websocket_a_tag_is_one_message() -> None:
    encode = FlvEncoding(in_messages=True).encoders[FrameKind.AUDIO]
    assert encode(40, b"\xaf\x01") == bytes.fromhex("82 11 08 000002 000028 00 000000 af01 0000000d")


@pytest.mark.parametrize(
    ("size", "head"), [(125, "827d"), (126, "827e007e"), (65_535, "827effff"), (65_536, "827f0000000000010000")]
)
def test_a_message_tells_its_length_in_the_shortest_form(size: int, head: str) -> None:
    assert message_head(size) == bytes.fromhex(head)
