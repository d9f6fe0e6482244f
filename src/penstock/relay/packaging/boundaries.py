"""Where parts and segments of a stream begin: decided once, by whoever appends to its log, and only read by packagers.

Owns the rule, the numbers and the wall time. The rule needs no more than each frame's kind, time and first bytes, so it
costs the writer next to nothing, and a packager that comes late or restarts finds what all others found.

A segment begins at a key frame, at least `min_segment_ms` behind the last one; without video, each `segment_ms`. A GOP
of more than `max_segment_ms` is cut where a part begins. A part begins at a whole frame once the last one has at least
85 % of the part target, which is what HLS allows; it begins with video if video comes in time, else with audio. The
part target is chosen so that the frame rate fits: a ninth above the first whole number of frames that is near
`part_ms`. A publication, a codec and a clock that jumped begin a segment with a discontinuity. Parts are longer than
their target only where no frame comes in time: pictures alone that become rarer, or that stall while sounds lie further
apart than a seventh of the target.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.media.frame import Frame, FrameKind
from penstock.media.packets import PacketKind

PARTS_PER_SECOND: Final = 20
"""Numbers of parts begin at so many for each second of Unix time: more than there are in one, so they never go back."""
_DISCONTINUITY_S: Final = 3600
"""Discontinuities are counted from the Unix hour: hls.js 1.7 walks a list as long as their number is large, and hangs
where that is the second."""

_LEAST_PART: Final = 0.85
_FIRST_PART: Final = 0.925
"""Of `part_ms`, so that a whole number of frames that falls just short of it counts."""
_FIRST_WAIT: Final = 1.5
"""Times `part_ms` that the first part may last to end at a picture: whoever begins with one can go on so."""
_TARGET_HEADROOM: Final = 0.9
_JITTER_MS: Final = 3
"""By so much a picture may be late and still be waited for: times are rounded, and encoders not quite even."""
_MAX_TARGET: Final = 5
"""Times `part_ms`: a stream that begins with a pause must not have such parts for ever."""
_MAX_BACK_MS: Final = 1000
_MAX_AHEAD_MS: Final = 10_000
"""An encoder whose time moves by more than this has set its clock."""
_KEY_WAIT_MS: Final = 3000
"""Without a key frame for so long, a stream begins where it is."""
_WALL_TOLERANCE_MS: Final = 1000
_EMPTY_SETUP_BYTES: Final = 5
"""libaom knows its record only behind the first frame; FFmpeg sends an empty one before. For AC-3 it sends no other."""

_AUDIO: Final = FrameKind.AUDIO
_VIDEO: Final = FrameKind.VIDEO
_DATA: Final = FrameKind.DATA


@dataclass(frozen=True, slots=True)
class BoundaryRule:
    """How long parts and segments are meant to be."""

    part_ms: int = 200
    min_segment_ms: int = 1000
    segment_ms: int = 2000
    max_segment_ms: int = 10_000


class Boundary(NamedTuple):
    """A part begins before the message at `position`, and with `part_index` 0 a segment.

    `segment`, `part` and `discontinuity` count through the stream. `wall_ms` is the Unix time of `timestamp_ms`.
    `part_target_ms` is None until the first part of the stream has ended; `longest_segment_ms` is the length of the
    longest segment that has, 0 if there is none.
    """

    position: int
    timestamp_ms: int
    wall_ms: int
    segment: int
    part: int
    part_index: int
    discontinuity: int
    is_discontinuous: bool
    is_independent: bool
    part_target_ms: int | None
    longest_segment_ms: int = 0


class Numbering(NamedTuple):
    """How far a stream has counted: what another process needs that goes on with it.

    `began_s` is the Unix second in which its first publication began. It tells streams of one name apart.
    """

    began_s: int
    segment: int
    part: int
    discontinuity: int
    part_target_ms: int | None = None
    longest_segment_ms: int = 0

    @classmethod
    def at(cls, wall_ms: int) -> "Numbering":
        """Of a stream whose first publication begins at this Unix time: nothing of it was numbered."""
        began_s = wall_ms // 1000
        return cls(began_s, began_s - 1, began_s * PARTS_PER_SECOND - 1, began_s // _DISCONTINUITY_S)

    @property
    def has_begun(self) -> bool:
        """Whether anything was numbered."""
        return self.segment >= self.began_s

    def skipping(self) -> "Numbering":
        """The same for one who may not have heard of all: what was numbered without its knowing is left out."""
        return self._replace(segment=self.segment + 1, part=self.part + PARTS_PER_SECOND) if self.has_begun else self


class Boundaries:
    """The boundaries of one stream, found frame by frame."""

    def __init__(self, rule: BoundaryRule, numbering: Numbering) -> None:
        """`numbering` is where the numbers go on."""
        self._rule = rule
        self._segment = numbering.segment
        self._part = numbering.part
        self._discontinuity = numbering.discontinuity
        self._part_index = 0
        self._is_first = not numbering.has_begun
        self._is_open = False
        self._began_s = numbering.began_s
        self.part_target_ms = numbering.part_target_ms
        self._longest_segment_ms = numbering.longest_segment_ms
        self._wall_offset_ms: int | None = None
        self._begin()

    @property
    def numbering(self) -> Numbering:
        """How far it has counted."""
        return Numbering(
            self._began_s,
            self._segment,
            self._part,
            self._discontinuity,
            self.part_target_ms,
            self._longest_segment_ms,
        )

    def begin_anew(self) -> None:
        """Another publication continues the stream."""
        if self._is_open:
            self._see_segment_end(max(self._last_ms.values(), default=self._segment_start_ms))
        self._wall_offset_ms = None
        self._begin()

    def _begin(self) -> None:
        self._is_open = False
        self._part_start_ms = self._segment_start_ms = 0
        self._quiet_until_ms = 0.0
        """Before this time only a key frame or a jump can begin anything: nine of ten frames need no further look."""
        self._waits_since_ms: int | None = None
        self._codecs: dict[FrameKind, bytes] = {}
        self._segment_codecs: dict[FrameKind, bytes] = {}
        self._last_ms: dict[FrameKind, int] = {}
        self._interval_ms: dict[FrameKind, int] = {}

    @property
    def _least_part_ms(self) -> float:
        target_ms = self.part_target_ms
        return self._rule.part_ms * _FIRST_PART if target_ms is None else target_ms * _LEAST_PART

    @property
    def _has_video(self) -> bool:
        return _VIDEO in self._codecs

    def stamp(self, frame: Frame, position: int, wall_ms: int) -> Boundary | None:
        """The boundary before a message that is about to be appended at `position`, if there is one."""
        kind, timestamp_ms, payload, is_key, is_setup, is_malformed, _ = frame
        if kind is _DATA or is_malformed or not payload:
            return None
        if is_setup:
            self._see_setup(frame)
            return None
        last_ms = self._last_ms.get(kind)
        if not is_key and last_ms is not None and last_ms < timestamp_ms < self._quiet_until_ms:
            self._interval_ms[kind] = timestamp_ms - last_ms
            self._last_ms[kind] = timestamp_ms
            return None
        if kind not in self._codecs:
            self._codecs[kind] = _codec_bytes(kind, payload)
        is_segment_start = self._begins_segment(kind, timestamp_ms, is_key)
        is_part_start = is_segment_start or (self._is_open and self._begins_part(kind, timestamp_ms))
        is_discontinuous = is_segment_start and self._open_segment(kind, timestamp_ms)
        self._see_time(kind, timestamp_ms)
        if not is_part_start:
            return None
        self._part += 1
        self._part_index = 0 if is_segment_start else self._part_index + 1
        self._part_start_ms = timestamp_ms
        self._quiet_until_ms = timestamp_ms + self._least_part_ms
        return Boundary(
            position,
            timestamp_ms,
            self._wall_ms(timestamp_ms, wall_ms),
            self._segment,
            self._part,
            self._part_index,
            self._discontinuity,
            is_discontinuous,
            is_key or not self._has_video,
            self.part_target_ms,
            self._longest_segment_ms,
        )

    def _see_setup(self, frame: Frame) -> None:
        kind = frame.kind
        is_empty = len(frame.payload) <= _EMPTY_SETUP_BYTES
        if (kind, 0, PacketKind.SETUP) not in frame.setup_slots or (is_empty and kind is _AUDIO):
            return
        self._quiet_until_ms = 0.0
        in_force = self._codecs.get(kind)
        self._codecs[kind] = frame.payload
        was_empty = in_force is not None and len(in_force) <= _EMPTY_SETUP_BYTES
        if was_empty and self._part_index == 0 and self._segment_codecs.get(kind) == in_force:
            self._segment_codecs[kind] = frame.payload

    def _see_time(self, kind: FrameKind, timestamp_ms: int) -> None:
        last_ms = self._last_ms.get(kind)
        if last_ms is not None and 0 < timestamp_ms - last_ms <= _MAX_AHEAD_MS:
            self._interval_ms[kind] = timestamp_ms - last_ms
        self._last_ms[kind] = timestamp_ms

    def _begins_segment(self, kind: FrameKind, timestamp_ms: int, is_key: bool) -> bool:
        if not self._is_open:
            return self._may_begin(timestamp_ms, is_key)
        if self._has_jumped(kind, timestamp_ms):
            return True
        length_ms = timestamp_ms - self._segment_start_ms
        has_changed = self._codecs != self._segment_codecs
        if is_key and (has_changed or length_ms >= self._rule.min_segment_ms):
            return True
        if not self._has_video:
            wanted_ms = self._rule.segment_ms - self._rule.part_ms // 2
            return has_changed or (length_ms >= wanted_ms and self._begins_part(kind, timestamp_ms))
        return length_ms >= self._rule.max_segment_ms and self._begins_part(kind, timestamp_ms)

    def _may_begin(self, timestamp_ms: int, is_key: bool) -> bool:
        if is_key or not self._has_video:
            return True
        if self._waits_since_ms is None:
            self._waits_since_ms = timestamp_ms
        return timestamp_ms - self._waits_since_ms >= _KEY_WAIT_MS

    def _has_jumped(self, kind: FrameKind, timestamp_ms: int) -> bool:
        # Sound and pictures jump one after the other, and that is one jump: the second is where the first is already.
        # So is sound that comes back after a pause.
        return kind in self._last_ms and not any(_follows(last_ms, timestamp_ms) for last_ms in self._last_ms.values())

    def _begins_part(self, kind: FrameKind, timestamp_ms: int) -> bool:
        length_ms = timestamp_ms - self._part_start_ms
        if length_ms < self._least_part_ms:
            return False
        if kind is _AUDIO and self._has_video and not self._is_video_late(timestamp_ms):
            return False
        if self.part_target_ms is None:
            wanted_ms = -int(-length_ms // _TARGET_HEADROOM)
            self.part_target_ms = min(max(wanted_ms, self._rule.part_ms), _MAX_TARGET * self._rule.part_ms)
        return True

    def _is_video_late(self, timestamp_ms: int) -> bool:
        """Whether the next picture will come too late for this part: by its pace, or as it is overdue and no sound will
        come in time either."""
        if _VIDEO not in self._interval_ms or _VIDEO not in self._last_ms:
            return True
        picture_ms = self._last_ms[_VIDEO] + self._interval_ms[_VIDEO]
        sound_ms = timestamp_ms + self._interval_ms.get(_AUDIO, 0)
        end_ms = self._part_start_ms + (self.part_target_ms or self._rule.part_ms * _FIRST_WAIT)
        return picture_ms > end_ms or (timestamp_ms >= picture_ms + _JITTER_MS and sound_ms > end_ms)

    def _open_segment(self, kind: FrameKind, timestamp_ms: int) -> bool:
        """Begin a segment; whether with a discontinuity."""
        has_jumped = self._is_open and self._has_jumped(kind, timestamp_ms)
        is_new = not self._is_open or self._codecs != self._segment_codecs
        if self._is_open:
            self._see_segment_end(max(self._last_ms.values()) if has_jumped else timestamp_ms)
        is_discontinuous = not self._is_first and (is_new or has_jumped)
        self._segment += 1
        self._discontinuity += is_discontinuous
        self._is_first = False
        self._is_open = True
        self._segment_start_ms = timestamp_ms
        self._segment_codecs = dict(self._codecs)
        return is_discontinuous

    def _see_segment_end(self, end_ms: int) -> None:
        self._longest_segment_ms = max(self._longest_segment_ms, end_ms - self._segment_start_ms)

    def _wall_ms(self, timestamp_ms: int, wall_ms: int) -> int:
        """The stream's time on the wall: that of the frame which came soonest, so that no date is ahead of the wall."""
        offset_ms = wall_ms - timestamp_ms
        known_ms = self._wall_offset_ms
        if known_ms is None or not 0 <= offset_ms - known_ms <= _WALL_TOLERANCE_MS:
            self._wall_offset_ms = known_ms = offset_ms
        return timestamp_ms + known_ms


def _follows(before_ms: int, after_ms: int) -> bool:
    return -_MAX_BACK_MS <= after_ms - before_ms <= _MAX_AHEAD_MS


def _codec_bytes(kind: FrameKind, payload: bytes) -> bytes:
    """What tells the codec of a track that sent no set-up: its FourCC, or the byte that has its number."""
    is_enhanced = payload[0] & 0x80 if kind is _VIDEO else payload[0] >> 4 == 9
    if is_enhanced:
        return payload[1:5]
    return bytes((payload[0] & 0x0F if kind is _VIDEO else payload[0] >> 4,))
