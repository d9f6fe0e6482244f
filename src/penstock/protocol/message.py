"""RTMP messages: what travels inside chunks, and the numbers of their types (RTMP 1.0, sections 5.4 and 7.1).

Owns the message itself and the type ids. What a payload says is read by `control` and `command`.
"""

import enum
from typing import NamedTuple

DEFAULT_CHUNK_SIZE = 128
MAX_MESSAGE_BYTES = 0xFFFFFF
EXTENDED = 0xFFFFFF
"""The value of a 24-bit time field that says: four more bytes hold the real one."""


class MessageType(enum.IntEnum):
    """Every message type in use."""

    SET_CHUNK_SIZE = 1
    ABORT = 2
    ACKNOWLEDGEMENT = 3
    USER_CONTROL = 4
    WINDOW_ACKNOWLEDGEMENT_SIZE = 5
    SET_PEER_BANDWIDTH = 6
    AUDIO = 8
    VIDEO = 9
    AMF3_DATA = 15
    AMF3_SHARED_OBJECT = 16
    AMF3_COMMAND = 17
    AMF0_DATA = 18
    AMF0_SHARED_OBJECT = 19
    AMF0_COMMAND = 20
    AGGREGATE = 22


class Message(NamedTuple):
    """One whole message. A NamedTuple, as one is made per message on the hot path."""

    type_id: int
    timestamp_ms: int
    """32 bits, as on the wire."""
    stream_id: int
    payload: bytes
    chunk_stream_id: int
