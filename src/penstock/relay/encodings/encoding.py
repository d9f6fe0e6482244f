"""What an encoding of a stream is: how its frames become bytes that every viewer of that kind is sent.

Owns the border between a log and what is written into it. One such object belongs to one log, so it may remember what
came before; the log asks it in the order of the stream.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from penstock.media.fmp4_tracks import LeftOut
from penstock.media.frame import Frame
from penstock.relay.codec_config import CodecConfig
from penstock.relay.readable_log import FrameEncoders, JoiningMessage


class EncodingKind(Enum):
    """As facts call the protocol."""

    FLV = "http-flv"
    WEBSOCKET_FLV = "ws-flv"
    MP4 = "http-mp4"


JoiningMessages = tuple[JoiningMessage, ...] | None
"""None: the messages of the codec configuration, as they are encoded."""


class Encoding(Protocol):
    """Makes the bytes of one log."""

    @property
    def encoders(self) -> FrameEncoders:
        """For each kind of frame."""

    @property
    def carries_setup(self) -> bool:
        """Whether decoder set-up is among what it writes."""

    @property
    def is_ready(self) -> bool:
        """Whether it is known what viewers are to be told before the first frame."""

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Tracks that it cannot carry."""

    def joining_messages(self, config: CodecConfig, timestamp_ms: int) -> JoiningMessages:
        """What one gets first who joins where that is in force."""

    def begin(self, config: CodecConfig, frames: list[Frame]) -> None:
        """It begins with these frames, at a place where that configuration is in force."""

    def takes(self, frame: Frame) -> bool:
        """Whether a frame is written at all. Asked once for each, before it is encoded."""

    def is_over(self, config: CodecConfig) -> bool:
        """Whether what follows cannot be said to those who watch already, since the stream is another one now."""


NewEncoding = Callable[[], Encoding]
