"""What a viewer may say on a WebSocket, in literal frames."""

import pytest

from penstock.errors import ProtocolViolation
from penstock.serve.connections.websocket import ViewerFrames, accept_value, close_frame

MASK = b"\x01\x02\x03\x04"


def masked(payload: bytes) -> bytes:
    return MASK + bytes(byte ^ MASK[index % 4] for index, byte in enumerate(payload))


PING = b"\x89\x82" + masked(b"hi")
TEXT = b"\x81\x85" + masked(b"hello")
LONG = b"\x82\xfe\x01\x00" + masked(bytes(256))
CLOSE = b"\x88\x82" + masked(b"\x03\xe8")


def test_the_accept_value_is_that_of_the_rfc() -> None:
    assert accept_value(b"dGhlIHNhbXBsZSBub25jZQ==") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize("key", [b"", b"short", b"!!!!", b"dGhlIHNhbXBsZSBub25jZQ"])
def test_what_is_no_key_is_not_accepted(key: bytes) -> None:
    assert accept_value(key) is None


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000])
def test_pings_are_answered_and_messages_passed_over_however_they_are_cut(cut: int) -> None:
    frames, said = ViewerFrames(), TEXT + PING + LONG + b"\x8a\x80" + MASK + PING + CLOSE + b"whatever"
    replies = b"".join(frames.receive(said[at : at + cut]) for at in range(0, len(said), cut))
    assert replies == b"\x8a\x02hi" + b"\x8a\x02hi" + b"\x88\x02\x03\xe8"
    assert frames.has_ended


def test_nothing_is_kept_of_a_message_however_long() -> None:
    frames = ViewerFrames()
    assert frames.receive(b"\x82\xff" + (1 << 40).to_bytes(8, "big") + MASK + bytes(100_000)) == b""
    assert len(frames._data) == 0


@pytest.mark.parametrize(
    "frame",
    [b"\x89\x02hi", b"\xc9\x82" + masked(b"hi"), b"\x83\x80" + MASK, b"\x09\x82" + masked(b"hi"), b"\x89\xfe\x00\x7e"],
)
def test_what_no_client_may_send_is_a_violation(frame: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        ViewerFrames().receive(frame)


def test_the_end_has_its_reason() -> None:
    assert close_frame(1001) == b"\x88\x02\x03\xe9"
