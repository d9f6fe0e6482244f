"""Recordings for the tests of the archive job: made by FFmpeg, retimed, torn, listed in a manifest, and judged.

Owns the tiny files. Outputs are judged by Debian's ffprobe and ffmpeg, never by the code that made them.
"""

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.media.flv_index import is_key_video
from penstock.media.flv_writer import FlvFileWriter
from penstock.pipeline.sources.files import OpenFile, locate
from penstock.pipeline.sources.flv.manifest import Segment
from penstock.serve.recording.manifest import MANIFEST_NAME, SegmentRow, SegmentStatus, write_row
from tests.support.ffmpeg import TINY_AAC_ARGUMENTS, TINY_H264_ARGUMENTS, find_ffmpeg
from tests.support.processes import find_program
from tests.support.samples import DATA, VIDEO, Sample

STARTED_AT = datetime(2026, 11, 15, 20, 0, 0, 250_000, tzinfo=UTC)
STARTED_AT_US = 1_794_772_800_250_000
DEADLINE_S = 60.0


def make_recording(
    path: Path, seconds: float = 14, *, has_video: bool = True, has_audio: bool = True, extra: Sequence[str] = ()
) -> Path:
    """A moving picture of 128x72 at 10 frames a second with a key frame every half second, and a tone."""
    picture = ["-f", "lavfi", "-i", f"testsrc=size=128x72:rate=10:duration={seconds}"]
    tone = ["-f", "lavfi", "-i", f"sine=frequency=440:sample_rate=22050:duration={seconds}"]
    inputs = [*(picture if has_video else ()), *(tone if has_audio else ())]
    encoding = [*(TINY_H264_ARGUMENTS if has_video else ()), *(TINY_AAC_ARGUMENTS if has_audio else ())]
    run([find_ffmpeg(), "-nostdin", "-loglevel", "error", *inputs, *encoding, *extra, "-f", "flv", str(path)])
    return path


def run(command: Sequence[str]) -> str:
    """Run a program to its end, which must be a good one, and return all that it printed."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert ended.returncode == 0, f"{command}: {ended.stderr}"
    return ended.stdout + ended.stderr


def flv_bytes(samples: Iterable[Sample]) -> bytes:
    """A finished recording of these samples, as the server writes it; metadata aside."""
    writer = FlvFileWriter(keyframe_room=64)
    body = bytearray()
    for type_id, timestamp_ms, payload in samples:
        if type_id != DATA:
            is_key = type_id == VIDEO and is_key_video(payload)
            head, trail = writer.add_tag(type_id, timestamp_ms, payload, is_key=is_key)
            body += head + payload + trail
    return writer.finish() + bytes(body)


@contextmanager
def opened(data: bytes) -> Iterator[OpenFile]:
    """These bytes as a recorded file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with OpenFile(locate(file.name)) as opened_file:
            yield opened_file


def retimed(samples: Iterable[Sample], clock: Callable[[int], int]) -> list[Sample]:
    """The same samples by another clock, which shows so many milliseconds where the first shows these."""
    return [sample._replace(timestamp_ms=clock(sample.timestamp_ms)) for sample in samples]


def segment_of(path: Path, /, **changes: Any) -> Segment:
    """What the manifest would say of a file."""
    values: dict[str, Any] = {
        "recording_id": "rec",
        "segment": 0,
        "path": path.name,
        "app": "live",
        "stream": "show",
        "status": "closed",
        "started_at_us": STARTED_AT_US,
        "ended_at": "",
        "duration_ms": 1,
        "bytes": path.stat().st_size if path.exists() else 1,
        "video": "H.264",
        "audio": "AAC",
    }
    return Segment(**(values | changes))


def manifest_row(segment: Segment) -> bytes:
    """A line by the server's own writer."""
    return write_row(
        SegmentRow(
            recording_id=segment.recording_id,
            segment=segment.segment,
            path=segment.path,
            app=segment.app,
            stream=segment.stream,
            status=SegmentStatus(segment.status),
            reason=None,
            started_at=STARTED_AT,
            ended_at=None,
            duration_ms=segment.duration_ms,
            bytes=segment.bytes,
            video=segment.video,
            audio=segment.audio,
            keyframes=1,
            gaps=(),
            first_timestamp_ms=0,
            last_timestamp_ms=segment.duration_ms,
        )
    )


def write_manifest(folder: Path, segments: Iterable[Segment]) -> None:
    """The manifest of a folder."""
    (folder / MANIFEST_NAME).write_bytes(b"".join(map(manifest_row, segments)))


def probed(path: Path, *arguments: str) -> Any:
    """What ffprobe says of a file."""
    return json.loads(run([find_program("ffprobe", "ffmpeg"), "-v", "error", *arguments, "-of", "json", str(path)]))


def packets(path: Path, kind: str) -> list[float]:
    """When each packet of the picture ("v") or the sound ("a") is due to be decoded, in seconds."""
    found = probed(path, "-select_streams", f"{kind}:0", "-show_entries", "packet=dts_time")
    return [float(packet["dts_time"]) for packet in found["packets"]]


def codecs(path: Path) -> list[str]:
    """FFmpeg's names of the tracks' codecs."""
    return [stream["codec_name"] for stream in probed(path, "-show_entries", "stream=codec_name")["streams"]]


def decoding_errors(path: Path) -> str:
    """What ffmpeg complains of when it decodes a file to its end."""
    return run([find_ffmpeg(), "-nostdin", "-v", "warning", "-xerror", "-i", str(path), "-f", "null", "-"])


def top_boxes(path: Path) -> list[str]:
    """The outermost boxes of an MP4 file, in their order."""
    data = path.read_bytes()
    names: list[str] = []
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position : position + 4])
        names.append(data[position + 4 : position + 8].decode())
        position += size
    return names
