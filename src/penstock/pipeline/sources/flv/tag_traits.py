"""Track, codec, role, key frame and composition time of many tags at once.

Owns a table of plain headers and what the readers of `media` say of each, filled as headers are met, so that the two
cannot disagree. A plain header is one, two or five bytes long and says all but the composition time, which follows it.
Every other tag (several tracks, extensions, script data, payloads below 8 bytes) is read one by one.

The role of a tag is `config` (codec configuration or metadata, which a decoder needs first), `frame` or `other`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import MalformedMedia
from penstock.media.codecs import REORDERED_CODECS, VIDEO_CODEC_BY_ID, AudioCodec, VideoCodec
from penstock.media.flv import AUDIO_TAG, VIDEO_TAG
from penstock.media.flv_reader import START_BYTES
from penstock.media.frame import FrameKind, frame_of
from penstock.media.packets import PacketKind
from penstock.media.tags import read_audio_tag, read_video_tag

Role = Literal["config", "frame", "other"]
KINDS: Final = ("video", "audio", "data")
ROLES: Final[tuple[Role, ...]] = ("config", "frame", "other")
CODECS: Final = (*(codec.label for codec in (*VideoCodec, *AudioCodec)), None)
NO_CODEC: Final = len(CODECS) - 1
NO_TRACK: Final = -1

_LONGEST_PLAIN_BYTES: Final = 5
_CONFIG_KINDS: Final = frozenset(
    {PacketKind.SETUP, PacketKind.MPEG2TS_SETUP, PacketKind.METADATA, PacketKind.MULTICHANNEL_CONFIG}
)


class Described(NamedTuple):
    """What a payload holds. `track_id` and `codec` are those of its first track; `error` says why it cannot be read."""

    track_id: int | None
    codec: VideoCodec | AudioCodec | None
    role: Role
    is_key: bool
    composition_time_ms: int
    error: str | None


def describe_payload(kind: int, payload: bytes) -> Described:
    """What the readers of `media` say of a whole payload."""
    if kind not in (VIDEO_TAG, AUDIO_TAG):
        # A script tag of AMF3 has a format byte before what else is the same.
        is_config = frame_of(FrameKind.DATA, 0, payload.removeprefix(b"\x00")).is_setup
        return Described(None, None, "config" if is_config else "other", False, 0, None)
    try:
        if kind == VIDEO_TAG:
            video = read_video_tag(payload)
            track_id = video.tracks[0].track_id if video.tracks else None
            role = _role_of(video.packet_kind)
            return Described(track_id, video.codec, role, video.is_key, video.composition_time_ms, None)
        audio = read_audio_tag(payload)
        track_id = audio.tracks[0].track_id if audio.tracks else None
        return Described(track_id, audio.codec, _role_of(audio.packet_kind), False, 0, None)
    except MalformedMedia as error:
        return Described(None, None, "other", False, 0, str(error))


def _role_of(kind: PacketKind) -> Role:
    if kind in _CONFIG_KINDS:
        return "config"
    return "frame" if kind is PacketKind.FRAME else "other"


def _plain_video_bytes(first: int) -> int:
    frame_bits = first >> 4 & 0x07
    if not 1 <= frame_bits <= 4:
        return 0
    if first & 0x80:
        return _LONGEST_PLAIN_BYTES if first & 0x0F < 6 else 0
    codec = VIDEO_CODEC_BY_ID.get(first & 0x0F)
    return 2 if codec in REORDERED_CODECS else 1


def _plain_audio_bytes(first: int) -> int:
    sound_format = first >> 4
    if sound_format == 9:
        return _LONGEST_PLAIN_BYTES if first & 0x0F < 5 else 0
    return 2 if sound_format == 10 else 1


def _plain_bytes_table() -> NDArray[np.uint8]:
    """By kind and first byte: how long a plain header is; 0 if it is not plain."""
    table = np.zeros((256, 256), np.uint8)
    table[VIDEO_TAG] = [_plain_video_bytes(first) for first in range(256)]
    table[AUDIO_TAG] = [_plain_audio_bytes(first) for first in range(256)]
    return table


_PLAIN_BYTES: Final = _plain_bytes_table()
_HEADER_MASKS: Final = np.array([~(2**64 - 1 >> 8 * size) & 2**64 - 1 for size in range(6)], np.uint64)


@dataclass(frozen=True, slots=True)
class Traits:
    """Columns for neighbouring tags. Codecs and roles are numbers in CODECS and ROLES; `errors` is by row."""

    tracks: NDArray[np.int32]
    codecs: NDArray[np.int8]
    roles: NDArray[np.int8]
    is_key: NDArray[np.bool_]
    composition_times_ms: NDArray[np.int64]
    errors: dict[int, str]

    def put(self, row: int, found: Described) -> None:
        self.tracks[row] = NO_TRACK if found.track_id is None else found.track_id
        self.codecs[row] = NO_CODEC if found.codec is None else CODECS.index(found.codec.label)
        self.roles[row] = ROLES.index(found.role)
        self.is_key[row] = found.is_key
        self.composition_times_ms[row] = found.composition_time_ms
        if found.error is not None:
            self.errors[row] = found.error


def _empty(count: int) -> Traits:
    return Traits(
        np.zeros(count, np.int32),
        np.zeros(count, np.int8),
        np.zeros(count, np.int8),
        np.zeros(count, np.bool_),
        np.zeros(count, np.int64),
        {},
    )


_known: dict[int, Described] = {}


def traits_of(
    kinds: NDArray[np.uint8], starts: NDArray[np.uint8], sizes: NDArray[np.int64], payload: Callable[[int], bytes]
) -> Traits:
    """Read tags of these kinds, whose payloads start so; `payload` gives the whole one of a row."""
    plain_bytes = _PLAIN_BYTES[kinds, starts[:, 0]]
    plain_bytes[sizes < START_BYTES] = 0
    words = np.ascontiguousarray(starts).view(">u8").ravel().astype(np.uint64)
    headers = (words & _HEADER_MASKS[plain_bytes]) | kinds
    headers[plain_bytes == 0] = 0
    distinct, which = np.unique(headers, return_inverse=True)

    table = _empty(len(distinct))
    has_time = np.zeros(len(distinct), np.bool_)
    for row, header in enumerate(distinct.tolist()):
        if header:
            found = _described(header)
            table.put(row, found)
            has_time[row] = found.composition_time_ms != 0
    traits = Traits(
        table.tracks[which],
        table.codecs[which],
        table.roles[which],
        table.is_key[which],
        _composition_times_ms(starts, plain_bytes) * has_time[which],
        {row: table.errors[number] for row, number in enumerate(which.tolist()) if number in table.errors}
        if table.errors
        else {},
    )
    for row in np.flatnonzero(plain_bytes == 0).tolist():
        traits.put(row, describe_payload(int(kinds[row]), payload(row)))
    return traits


def _described(header: int) -> Described:
    """What the readers say of a plain header; a composition time that is not 0 means that there is one behind it."""
    found = _known.get(header)
    if found is None:
        kind, data = header & 0xFF, (header & ~0xFF).to_bytes(8)
        size = int(_PLAIN_BYTES[kind, data[0]])
        found = _known[header] = describe_payload(kind, data[:size] + b"\x00\x00\x01".ljust(8, b"\x00"))
    return found


def _composition_times_ms(starts: NDArray[np.uint8], plain_bytes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The signed 24-bit number behind each header, which is there behind headers of two and of five bytes."""
    behind = np.where((plain_bytes == 2)[:, None], starts[:, 2:5], starts[:, 5:8]).astype(np.int64)
    value = behind[:, 0] << 16 | behind[:, 1] << 8 | behind[:, 2]
    return np.where(value >= 1 << 23, value - (1 << 24), value)
