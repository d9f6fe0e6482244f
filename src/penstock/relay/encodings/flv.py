"""Frames as FLV tags, and as WebSocket messages with a tag each.

Owns the bytes that viewers of FLV share (Adobe FLV 10.1, annex E.4; RFC 6455, section 5.2). FLV carries all that RTMP
does. A frame of a WebSocket holds one tag, so that a viewer that catches up begins and ends with whole ones.
"""

from functools import partial
from typing import Final

from penstock.media.flv import (
    BACK_POINTER_BYTES,
    MAX_PAYLOAD_BYTES,
    TAG_HEADER_BYTES,
    write_back_pointer,
    write_file_header,
    write_tag_header,
)
from penstock.media.fmp4_tracks import LeftOut
from penstock.media.frame import Frame, FrameKind
from penstock.relay.codec_config import CodecConfig
from penstock.relay.encodings.encoding import JoiningMessages
from penstock.relay.readable_log import FrameEncoders

BINARY: Final = 0x82
"""The first byte of a whole binary message."""
_SHORT_BYTES: Final = 126
_MAX_16_BIT: Final = 0xFFFF
FILE_HEADER: Final = write_file_header(has_audio=True, has_video=True)


def message_head(size: int, first: int = BINARY) -> bytes:
    """What comes before the payload of a message from a server, which is not masked."""
    if size < _SHORT_BYTES:
        return bytes((first, size))
    if size <= _MAX_16_BIT:
        return bytes((first, 126)) + size.to_bytes(2, "big")
    return bytes((first, 127)) + size.to_bytes(8, "big")


def _flv_tag(kind: int, timestamp_ms: int, payload: bytes) -> bytes:
    size = len(payload)
    return b"".join((write_tag_header(kind, timestamp_ms, size), payload, write_back_pointer(TAG_HEADER_BYTES + size)))


def _tag_message(kind: int, timestamp_ms: int, payload: bytes) -> bytes:
    size = len(payload)
    return b"".join(
        (
            message_head(TAG_HEADER_BYTES + size + BACK_POINTER_BYTES),
            write_tag_header(kind, timestamp_ms, size),
            payload,
            write_back_pointer(TAG_HEADER_BYTES + size),
        )
    )


_KINDS: Final = (FrameKind.AUDIO, FrameKind.VIDEO, FrameKind.DATA)
_TAGS: Final[FrameEncoders] = {kind: partial(_flv_tag, int(kind)) for kind in _KINDS}
_MESSAGES: Final[FrameEncoders] = {kind: partial(_tag_message, int(kind)) for kind in _KINDS}


class FlvEncoding:
    """Without anything to remember."""

    def __init__(self, *, in_messages: bool = False) -> None:
        """`in_messages`: for WebSockets."""
        self._encoders = _MESSAGES if in_messages else _TAGS

    @property
    def encoders(self) -> FrameEncoders:
        """For each kind of frame."""
        return self._encoders

    @property
    def carries_setup(self) -> bool:
        """As any other tags."""
        return True

    @property
    def is_ready(self) -> bool:
        """Nothing is to be known before."""
        return True

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Nothing."""
        return ()

    def joining_messages(self, config: CodecConfig, timestamp_ms: int) -> JoiningMessages:  # noqa: ARG002
        """As over RTMP."""
        return None

    def begin(self, config: CodecConfig, frames: list[Frame]) -> None:
        """Nothing is to be known before."""

    def takes(self, frame: Frame) -> bool:
        """All that an FLV tag can hold."""
        return len(frame.payload) <= MAX_PAYLOAD_BYTES

    def is_over(self, config: CodecConfig) -> bool:  # noqa: ARG002
        """A player of FLV takes another codec as it comes."""
        return False
