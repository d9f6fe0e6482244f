"""The words that audio and video tags share: what kind of packet a tag holds, and where each track's bytes are."""

from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from penstock.media.codecs import AudioCodec, VideoCodec

CodecT = TypeVar("CodecT", VideoCodec, AudioCodec)


class PacketKind(Enum):
    """What a tag holds. All tracks of one multitrack tag hold the same kind."""

    SETUP = "setup"
    FRAME = "frame"
    END_OF_SEQUENCE = "end of sequence"
    METADATA = "metadata"
    MULTICHANNEL_CONFIG = "multichannel config"
    MPEG2TS_SETUP = "MPEG-2 TS setup"
    COMMAND = "command"
    SILENCE = "silence"


class TrackPacket(NamedTuple, Generic[CodecT]):
    """One track's packet: `payload[body_start:body_end]` are its media bytes, after every header.

    `composition_time_ms` is added to the message's timestamp to get the time of presentation; it is 0 where the
    format carries none, because both times are then the same.
    """

    track_id: int
    codec: CodecT
    packet_kind: PacketKind
    composition_time_ms: int
    body_start: int
    body_end: int


def read_si24(payload: bytes, at: int) -> int:
    """A signed 24-bit number. The caller has seen to it that three bytes are there."""
    return int.from_bytes(payload[at : at + 3], "big", signed=True)
