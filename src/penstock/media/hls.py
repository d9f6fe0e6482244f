"""HLS playlists (RFC 8216, and draft-pantos-hls-rfc8216bis for low latency): plain values to text.

Owns the order of tags, their spelling, and the rules that a text can keep by itself: which parts are still listed, what
a delta update may skip, where discontinuities are counted. Which segments there are, their names and the waiting for
new ones are for the caller. A text is a pure function of the values, so all workers render the same one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.errors import MisuseError

SKIP_TARGET_DURATIONS: Final = 6
"""A delta update leaves out what is older than so many target durations, and the rules allow no less."""
PART_TARGET_DURATIONS: Final = 3
"""Parts of what is older than so many target durations are not listed: nobody starts there part by part."""
HOLD_BACK_PARTS: Final = 3
"""So many part targets behind the end players stay, for the least that the draft recommends."""

_VERSION: Final = 7
"""Of a playlist with EXT-X-MAP for fragmented MP4."""
_LOW_LATENCY_VERSION: Final = 9
"""Of one that may have EXT-X-SKIP."""
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class HlsPart:
    """A partial segment. `is_gap`: its media is missing."""

    uri: str
    duration_ms: int
    is_independent: bool = False
    is_gap: bool = False


@dataclass(frozen=True, slots=True)
class HlsSegment:
    """A segment, or with `uri` None the parts of one that has yet to end.

    `discontinuity` is its discontinuity sequence number, which `is_discontinuous` says to be one above that of its
    predecessor. `wall_ms` is the Unix time of its first frame.
    """

    uri: str | None
    duration_ms: int
    map_uri: str
    wall_ms: int
    discontinuity: int = 0
    is_discontinuous: bool = False
    is_gap: bool = False
    parts: tuple[HlsPart, ...] = ()


@dataclass(frozen=True, slots=True)
class LowLatency:
    """What a low-latency playlist has more: the part target, and the name of the part that comes next."""

    part_target_ms: int
    next_part_uri: str | None = None


@dataclass(frozen=True, slots=True)
class MediaPlaylist:
    """A media playlist: consecutive segments of which the first is `media_sequence`; only the last may be open."""

    media_sequence: int
    target_duration_s: int
    segments: tuple[HlsSegment, ...]
    low_latency: LowLatency | None = None
    is_ended: bool = False
    has_independent_segments: bool = True
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """One stream of a multivariant playlist."""

    uri: str
    bandwidth_bps: int
    codec_strings: tuple[str, ...] = ()
    width_px: int | None = None
    height_px: int | None = None
    frames_per_second: float | None = None


def target_duration_s(longest_ms: int, wanted_s: int = 1) -> int:
    """The target duration for segments of up to such a length: each, rounded to seconds, fits in."""
    return max(wanted_s, (longest_ms + 500) // 1000, 1)


def multivariant_playlist(
    variants: Sequence[Variant], comments: Sequence[str] = (), *, has_independent_segments: bool = True
) -> str:
    """The playlist that names the media playlists."""
    lines = ["#EXTM3U", f"#EXT-X-VERSION:{_VERSION}", *map(_comment, comments)]
    lines += ["#EXT-X-INDEPENDENT-SEGMENTS"] * has_independent_segments
    for variant in variants:
        attributes = [f"BANDWIDTH={variant.bandwidth_bps}"]
        if variant.codec_strings:
            attributes.append(f"CODECS={_quoted(','.join(variant.codec_strings))}")
        if variant.width_px is not None and variant.height_px is not None:
            attributes.append(f"RESOLUTION={variant.width_px}x{variant.height_px}")
        if variant.frames_per_second is not None:
            attributes.append(f"FRAME-RATE={variant.frames_per_second:.3f}")
        lines += ["#EXT-X-STREAM-INF:" + ",".join(attributes), _line(variant.uri)]
    return "\n".join(lines) + "\n"


def media_playlist(playlist: MediaPlaylist, *, is_delta: bool = False) -> str:
    """A media playlist, or with `is_delta` the update for a player that has all that is skipped."""
    segments = playlist.segments
    if any(segment.uri is None for segment in segments[:-1]):
        raise MisuseError("hls: a segment before the last is open")
    behind_ms = _behind_ms(segments)
    skipped = _skipped(playlist, behind_ms) if is_delta else 0
    lines = [*_head(playlist), *([f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}"] if skipped else [])]
    parts_before_ms = PART_TARGET_DURATIONS * playlist.target_duration_s * 1000
    map_uri = segments[skipped - 1].map_uri if skipped else None
    for segment, older_ms in zip(segments[skipped:], behind_ms[skipped:], strict=True):
        lines += _segment_head(segment, has_new_map=segment.map_uri != map_uri)
        map_uri = segment.map_uri
        if playlist.low_latency is not None and (older_ms < parts_before_ms or segment.uri is None):
            lines += map(_part, segment.parts)
        if segment.uri is not None:
            lines += ["#EXT-X-GAP"] * segment.is_gap
            lines += [f"#EXTINF:{_seconds(segment.duration_ms)},", _line(segment.uri)]
    if playlist.is_ended:
        lines.append("#EXT-X-ENDLIST")
    elif playlist.low_latency is not None and playlist.low_latency.next_part_uri is not None:
        lines.append(f"#EXT-X-PRELOAD-HINT:TYPE=PART,URI={_quoted(playlist.low_latency.next_part_uri)}")
    return "\n".join(lines) + "\n"


def _head(playlist: MediaPlaylist) -> list[str]:
    low_latency = playlist.low_latency
    lines = ["#EXTM3U", f"#EXT-X-VERSION:{_VERSION if low_latency is None else _LOW_LATENCY_VERSION}"]
    lines += map(_comment, playlist.comments)
    lines.append(f"#EXT-X-TARGETDURATION:{playlist.target_duration_s}")
    if low_latency is not None:
        control = {
            "CAN-BLOCK-RELOAD": "YES",
            "CAN-SKIP-UNTIL": _seconds(SKIP_TARGET_DURATIONS * playlist.target_duration_s * 1000),
            "PART-HOLD-BACK": _seconds(HOLD_BACK_PARTS * low_latency.part_target_ms),
        }
        lines.append("#EXT-X-SERVER-CONTROL:" + ",".join(f"{name}={value}" for name, value in control.items()))
        lines.append(f"#EXT-X-PART-INF:PART-TARGET={_seconds(low_latency.part_target_ms)}")
    lines.append(f"#EXT-X-MEDIA-SEQUENCE:{playlist.media_sequence}")
    if playlist.segments:
        # The tag before the first segment counts too: its number is what is left without it.
        first = playlist.segments[0]
        lines.append(f"#EXT-X-DISCONTINUITY-SEQUENCE:{first.discontinuity - first.is_discontinuous}")
    lines += ["#EXT-X-INDEPENDENT-SEGMENTS"] * playlist.has_independent_segments
    return lines


def _behind_ms(segments: Sequence[HlsSegment]) -> list[int]:
    """For each segment, how far its end is before the end of the playlist."""
    behind: list[int] = []
    behind_ms = 0
    for segment in reversed(segments):
        behind.append(behind_ms)
        behind_ms += segment.duration_ms
    return behind[::-1]


def _skipped(playlist: MediaPlaylist, behind_ms: Sequence[int]) -> int:
    boundary_ms = SKIP_TARGET_DURATIONS * playlist.target_duration_s * 1000
    if playlist.low_latency is None:
        return 0
    return sum(older_ms >= boundary_ms for older_ms in behind_ms)


def _segment_head(segment: HlsSegment, *, has_new_map: bool) -> list[str]:
    lines = ["#EXT-X-DISCONTINUITY"] * segment.is_discontinuous
    if has_new_map:
        lines.append(f"#EXT-X-MAP:URI={_quoted(segment.map_uri)}")
    lines.append(f"#EXT-X-PROGRAM-DATE-TIME:{date_time(segment.wall_ms)}")
    return lines


def _part(part: HlsPart) -> str:
    attributes = [f"DURATION={_seconds(part.duration_ms)}", f"URI={_quoted(part.uri)}"]
    attributes += ["INDEPENDENT=YES"] * part.is_independent
    attributes += ["GAP=YES"] * part.is_gap
    return "#EXT-X-PART:" + ",".join(attributes)


def date_time(unix_ms: int) -> str:
    """Unix time as the calendar has it, in UTC: "2026-11-18T15:28:05.040Z"."""
    days, of_day_ms = divmod(unix_ms, _DAY_MS)
    # Years that begin in March have their odd day last; 146,097 days are 400 years.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += 400 * era + (month >= 10)
    of_day_s, ms = divmod(of_day_ms, 1000)
    clock = f"{of_day_s // 3600:02d}:{of_day_s // 60 % 60:02d}:{of_day_s % 60:02d}.{ms:03d}"
    return f"{year:04d}-{(month + 2) % 12 + 1:02d}-{day + 1:02d}T{clock}Z"


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}"


def _quoted(text: str) -> str:
    if '"' in text:
        raise MisuseError(f"hls: a quote in {text!r}")
    return f'"{_line(text)}"'


def _line(text: str) -> str:
    if not text or not text.isprintable():
        raise MisuseError(f"hls: {text!r} is no line")
    return text


def _comment(text: str) -> str:
    """A comment: what begins with #EXT would be a tag."""
    return f"# {_line(text)}"
