"""What a worker and the process that decodes pictures for it tell each other.

Owns the two messages, the widths that there are, and how much of a stranger's picture is taken at all.
"""

from typing import Final

from penstock.control.messages import Message

WIDTHS: Final[tuple[int, ...]] = (160, 320, 640)
"""Of the JPEGs that are made of each picture."""
MAX_KEY_FRAME_BYTES: Final = 8 * 1024 * 1024
"""4K by an intra codec at full quality is about half of it."""
MAX_SETUP_BYTES: Final = 64 * 1024


class Decode(Message, frozen=True):
    """One key frame, as RTMP carries it: what a decoder wants in FLV or MP4. Answered by `Decoded`."""

    request: int
    codec: str
    """The name of a member of `VideoCodec`."""
    setup: bytes
    """The decoder configuration record; empty for codecs that have none."""
    key_frame: bytes


class Decoded(Message, frozen=True):
    """To `Decode`."""

    request: int
    jpegs: dict[int, bytes]
    """By width; that of a picture which is smaller is its own. Empty: there is no picture."""
    complaint: str = ""
    """Why there is none, in words of ours."""
