"""The viewer's side of a WebSocket on which a server sends media (RFC 6455, section 5), sans I/O.

Owns what a viewer may say: pings, pongs and the end. What else it sends is passed over, up to an allowance; none of it
is kept. Frames that are not masked, use what was not agreed on, or are control frames longer than 125 bytes end it.
"""

import base64
import hashlib
from typing import Final

from penstock.errors import ProtocolViolation

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
POLICY: Final = 1008
_ACCEPT_KEY: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16
_FINAL: Final = 0x80
_RESERVED: Final = 0x70
_OPCODE: Final = 0x0F
_MASKED: Final = 0x80
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_DATA: Final = (_CONTINUATION, _TEXT, _BINARY)
_CONTROL: Final = (_CLOSE, _PING, _PONG)
_MAX_CONTROL_BYTES: Final = 125
_MAX_HEAD_BYTES: Final = 14
_MASK_BYTES: Final = 4


def accept_value(key: bytes) -> bytes | None:
    """What `Sec-WebSocket-Accept` answers to a key; None: it is no key."""
    try:
        is_key = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except ValueError:
        is_key = False
    # The handshake's own algorithm; it protects nothing.
    return base64.b64encode(hashlib.sha1(key + _ACCEPT_KEY, usedforsecurity=False).digest()) if is_key else None


def close_frame(code: int) -> bytes:
    """The end, with its reason."""
    return bytes((_FINAL | _CLOSE, 2)) + code.to_bytes(2, "big")


class ViewerFrames:
    """What a viewer says, frame by frame."""

    __slots__ = ("_data", "_skip_bytes", "has_ended")

    def __init__(self) -> None:
        self._data = b""
        self._skip_bytes = 0
        """Of a message that is passed over."""
        self.has_ended = False
        """Whether the viewer has said that it is the end."""

    def receive(self, data: bytes) -> bytes:
        """What is to be answered. Raises `ProtocolViolation` for what no client may send."""
        replies = b""
        self._data += data
        while not self.has_ended:
            skipped = min(self._skip_bytes, len(self._data))
            self._data = self._data[skipped:]
            self._skip_bytes -= skipped
            frame = None if self._skip_bytes else self._next_frame()
            if frame is None:
                break
            opcode, payload = frame
            if opcode == _PING:
                replies += bytes((_FINAL | _PONG, len(payload))) + payload
            elif opcode == _CLOSE:
                self.has_ended = True
                replies += bytes((_FINAL | _CLOSE, min(2, len(payload)))) + payload[:2]
        return replies

    def _next_frame(self) -> tuple[int, bytes] | None:
        """A control frame, or the head of a data frame, whose payload is passed over; None: not all is there."""
        data = self._data
        if len(data) < 2:
            return None
        opcode, size, head_bytes = data[0] & _OPCODE, data[1] & ~_MASKED, 2
        if data[0] & _RESERVED or not data[1] & _MASKED or opcode not in (*_DATA, *_CONTROL):
            raise ProtocolViolation("websocket", f"a frame that begins with {data[:2].hex()}")
        if size > _MAX_CONTROL_BYTES:
            length_bytes = 2 if size == 126 else 8
            head_bytes += length_bytes
            if opcode in _CONTROL:
                raise ProtocolViolation("websocket", "a control frame of more than 125 bytes")
            if len(data) < head_bytes:
                return None
            size = int.from_bytes(data[2:head_bytes], "big")
        if opcode in _DATA:
            self._data = data[head_bytes:]
            self._skip_bytes = _MASK_BYTES + size
            return opcode, b""
        if not data[0] & _FINAL:
            raise ProtocolViolation("websocket", "a control frame in pieces")
        end = head_bytes + _MASK_BYTES + size
        if len(data) < end:
            return None
        mask = data[head_bytes : head_bytes + _MASK_BYTES]
        payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data[head_bytes + _MASK_BYTES : end]))
        self._data = data[end:]
        return opcode, payload
