"""Statistics as JSON and as tables: the same figures in both, rounded once.

Owns the names in the JSON, which scripts may rely on, and the words for people. Text from outside is made safe for a
terminal. An index of key frames inside metadata is left out, as it can be longer than all the rest.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.amf import AmfDate, AmfValue, AmfXml, TypedObject, printable
from penstock.tools.statistics import StreamStatistics, TrackStatistics

_INDEX_MEMBERS: Final = frozenset({"keyframes", "filler"})

Json = dict[str, Any]


def stream_json(source: str, container: str, statistics: StreamStatistics) -> Json:
    """What a stream or file consists of."""
    duration_ms = statistics.duration_ms
    return {
        "source": printable(source),
        "format": container,
        "duration_s": rounded(None if duration_ms is None else duration_ms / 1000),
        "messages": statistics.messages,
        "bytes": statistics.payload_bytes,
        "bitrate_bps": rounded(statistics.payload_bytes * 8000 / duration_ms if duration_ms else None, 0),
        "malformed_messages": statistics.malformed_messages,
        "av_skew_ms": statistics.skew_ms,
        "av_skew_max_ms": statistics.skew_max_ms,
        "metadata": None if statistics.metadata is None else metadata_json(statistics.metadata),
        "tracks": [track_json(track) for track in statistics.tracks.values()],
    }


def track_json(track: TrackStatistics) -> Json:
    """One track of a stream."""
    return {
        "kind": track.kind.name.lower(),
        "track_id": track.track_id,
        "codec": track.codec,
        "text": track.text,
        "width_px": track.width_px,
        "height_px": track.height_px,
        "sample_rate_hz": track.sample_rate_hz,
        "channels": track.channels,
        "frames": track.frames,
        "bytes": track.media_bytes,
        "start_ms": track.first_ms,
        "duration_ms": rounded(track.duration_ms, 0),
        "fps": rounded(track.frames_per_second),
        "bitrate_bps": rounded(track.bits_per_second, 0),
        "keyframes": track.keyframes,
        "keyframe_interval_ms": rounded(track.keyframe_interval_ms, 0),
        "keyframe_interval_max_ms": track.keyframe_interval_max_ms,
        "gaps": track.gaps,
        "gap_max_ms": track.gap_max_ms,
        "steps_back": track.steps_back,
    }


def metadata_json(metadata: Mapping[str, AmfValue]) -> Json:
    """Metadata without the index of key frames."""
    return {printable(name): _plain(value) for name, value in metadata.items() if name not in _INDEX_MEMBERS}


def rounded(value: float | None, digits: int = 3) -> float | int | None:
    """Rounded; whole numbers are whole, and what is no number is None, as JSON has no word for it."""
    if value is None or not math.isfinite(value):
        return None
    short = round(value, digits)
    return int(short) if short == int(short) else short


def write_json(report: Json, file: TextIO) -> None:
    """Print a report for programs."""
    file.write(json.dumps(report, indent=2) + "\n")
    file.flush()


def write_stream_tables(report: Json, console: Console) -> None:
    """Print a report of `stream_json` for people."""
    title = f"{report['source']}: {report['format']}, {_with_unit(report['duration_s'], 's')}, {_rate(report)}"
    tracks = Table(title=Text(title), title_justify="left")
    for heading in ("track", "what", "frames", "fps", "bitrate", "key frames", "gaps"):
        tracks.add_column(heading, justify="left" if heading in ("track", "what") else "right")
    for track in report["tracks"]:
        tracks.add_row(
            f"{track['kind']} {track['track_id']}",
            Text(_track_text(track)),
            str(track["frames"]),
            "" if track["fps"] is None or track["kind"] != "video" else f"{track['fps']:g}",
            _rate(track),
            _keyframes_text(track) if track["kind"] == "video" else "",
            f"{track['gaps']}" + (f" (longest {track['gap_max_ms']} ms)" if track["gaps"] else ""),
        )
    console.print(tracks)
    if report["metadata"]:
        members = Table("metadata", "value", title_justify="left")
        for name, value in report["metadata"].items():
            members.add_row(Text(name), Text(value if isinstance(value, str) else json.dumps(value)))
        console.print(members)


def _track_text(track: Json) -> str:
    size = f"{track['width_px']}x{track['height_px']}"
    return track["text"] if track["width_px"] is None or size in track["text"] else f"{track['text']} {size}"


def _keyframes_text(track: Json) -> str:
    interval_ms = track["keyframe_interval_ms"]
    return f"{track['keyframes']}" + (f", {interval_ms:g} ms apart" if interval_ms is not None else "")


def _rate(report: Json) -> str:
    return bit_rate_text(report["bitrate_bps"])


def bit_rate_text(bits_per_second: float | None) -> str:
    """A bit rate as people say it."""
    if bits_per_second is None:
        return "unknown"
    if bits_per_second >= 1_000_000:
        return f"{bits_per_second / 1_000_000:.2f} Mbit/s"
    return f"{bits_per_second / 1000:.0f} kbit/s"


def _with_unit(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:g} {unit}"


def _plain(value: AmfValue) -> Any:
    match value:
        case bool() | None:
            return value
        case int() | float():
            return rounded(value, 6)
        case str():
            return printable(value)
        case bytes():
            return value.hex()
        case dict():
            return {printable(name): _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case AmfDate(epoch_ms):
            return rounded(epoch_ms)
        case AmfXml(text):
            return printable(text)
        case TypedObject(_, members):
            return {printable(name): _plain(each) for name, each in members.items()}
        case _:
            return None
