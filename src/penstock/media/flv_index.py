"""What an FLV recording says about itself at its end: how long it is, what it holds, where its key frames are.

Owns the figures that go into onMetaData, gathered tag by tag while a file is written or walked. Reads no more of a
payload than its first two bytes (Adobe FLV 10.1, annex E.4.2 and E.4.3; Enhanced RTMP v2 for the extended headers), so
that a walk over headers is enough. Memory is bounded: the index holds a fixed number of key frames and thins itself
when more come.
"""

from typing import Final

from penstock.media.flv import AUDIO_TAG, VIDEO_TAG, unwrap_timestamp

# 4,096 key frames cost 73,728 bytes in the file: more than an hour at one key frame per second.
DEFAULT_KEYFRAME_ROOM: Final = 4096

_LEGACY_CODECS_WITH_PACKET_TYPE: Final = frozenset((7, 12))  # AVC, and the HEVC id in use without a standard
_LEGACY_CODED_FRAME: Final = 1
_EX_CODED_FRAMES: Final = frozenset((1, 3))
_EX_MULTITRACK: Final = 6
_EX_MODEX: Final = 7
_KEY_FRAME_TYPES: Final = frozenset((1, 4))
_AAC: Final = 10
_EX_AUDIO: Final = 9
_EX_AUDIO_SET_UP: Final = frozenset((0, 2, 4))


def is_timed_media(kind: int, start: bytes) -> bool:
    """Whether a tag whose payload starts so moves the clock: coded audio or video, or silence, but no set-up.

    Relays send sequence headers with timestamp 0 in mid-stream, and script data comes with any timestamp.
    """
    if kind == VIDEO_TAG:
        return len(start) > 1 and _is_coded_video(start[0], start[1])
    if kind != AUDIO_TAG:
        return False
    if len(start) < 2:
        return True
    sound_format = start[0] >> 4
    if sound_format == _EX_AUDIO:
        return start[0] & 0x0F not in _EX_AUDIO_SET_UP
    return sound_format != _AAC or start[1] != 0


def is_key_video(start: bytes) -> bool:
    """Whether a player can start at a video tag whose payload starts so: a rule for walks that read headers only.

    Trusts the frame type bits, which a few senders leave at 0; who has the whole payload can know better. A message of
    one extra track (multitrack type 0) is no place to start, since track 0 has its own key frame beside it.
    """
    if len(start) < 2 or not _is_coded_video(start[0], start[1]):
        return False
    first, second = start[0], start[1]
    if first & 0x80:
        is_extra_track = first & 0x0F == _EX_MULTITRACK and second >> 4 == 0
        return first >> 4 & 7 in _KEY_FRAME_TYPES and not is_extra_track
    return first >> 4 in _KEY_FRAME_TYPES


def _is_coded_video(first: int, second: int) -> bool:
    if first & 0x80:
        packet_type = first & 0x0F
        if packet_type == _EX_MULTITRACK:
            return second & 0x0F in _EX_CODED_FRAMES
        # The real type of a ModEx packet lies beyond two bytes; its one known use is to stamp frames.
        return packet_type in _EX_CODED_FRAMES or packet_type == _EX_MODEX
    return first & 0x0F not in _LEGACY_CODECS_WITH_PACKET_TYPE or second == _LEGACY_CODED_FRAME


class FlvIndexer:
    """Gathers the figures of one recording from its tags, in file order."""

    __slots__ = (
        "_keyframe_room",
        "_keyframe_stride",
        "_last_ms",
        "first_ms",
        "has_audio",
        "has_video",
        "keyframe_positions",
        "keyframe_times_ms",
        "keyframes",
        "last_ms",
    )

    def __init__(self, keyframe_room: int = DEFAULT_KEYFRAME_ROOM) -> None:
        self.has_audio = False
        self.has_video = False
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.keyframe_positions: list[int] = []
        self.keyframe_times_ms: list[int] = []
        self._last_ms = 0
        self._keyframe_room = max(keyframe_room, 1)
        self._keyframe_stride = 1
        self.keyframes = 0
        """All of them, those that were thinned out with them."""

    @property
    def duration_ms(self) -> int:
        """From the earliest to the latest timestamp of coded media; the length of the last frame is not known."""
        return 0 if self.first_ms is None or self.last_ms is None else self.last_ms - self.first_ms

    def add_tag(self, kind: int, timestamp_ms: int, offset: int, start: bytes, is_key: bool) -> None:
        """Count one tag. `start` is at least the first two bytes of its payload, or all of a shorter one."""
        if kind == AUDIO_TAG:
            self.has_audio = True
        elif kind == VIDEO_TAG:
            self.has_video = True
        if not is_timed_media(kind, start):
            return
        if self.first_ms is None or self.last_ms is None:
            self._last_ms = self.first_ms = self.last_ms = timestamp_ms
        else:
            self._last_ms = unwrap_timestamp(self._last_ms, timestamp_ms)
            self.first_ms = min(self.first_ms, self._last_ms)
            self.last_ms = max(self.last_ms, self._last_ms)
        if is_key:
            self._add_keyframe(offset, self._last_ms)

    def _add_keyframe(self, offset: int, time_ms: int) -> None:
        ordinal = self.keyframes
        self.keyframes += 1
        if ordinal % self._keyframe_stride == 0 and len(self.keyframe_positions) == self._keyframe_room:
            del self.keyframe_positions[1::2]
            del self.keyframe_times_ms[1::2]
            self._keyframe_stride *= 2
        if ordinal % self._keyframe_stride == 0:
            self.keyframe_positions.append(offset)
            self.keyframe_times_ms.append(time_ms)
