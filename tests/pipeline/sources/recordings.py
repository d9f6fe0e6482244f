"""Recordings for the tests of sources: small files of real encoders, and files made tag by tag."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from penstock.media.flv import AUDIO_TAG, VIDEO_TAG
from penstock.media.flv_writer import FlvFileWriter
from penstock.pipeline.sources.files import find_files
from penstock.pipeline.sources.flv.batches import read_part
from penstock.pipeline.sources.flv.filters import NO_FILTERS, PushedFilters
from penstock.pipeline.sources.flv.plan import FlvPart, named_files, plan
from tests.support.ffmpeg import QUIET_ARGUMENTS, TINY_AAC_ARGUMENTS, TINY_H264_ARGUMENTS, find_ffmpeg
from tests.support.processes import run_to_end

GOLDEN = Path(__file__).parents[2] / "golden" / "flv"
Row = dict[str, object]

KEY, INTER, SOUND = b"\x17\x01\x00\x00\x00", b"\x27\x01\x00\x00\x28", b"\xaf\x01"


def make_with_ffmpeg(path: Path, *, seconds: int = 3, video: str | None = "testsrc", audio: str = "sine") -> None:
    """A file of Debian's FFmpeg, with an index: a key frame each half second at 10 frames a second, and a sound."""
    inputs: list[str] = []
    if video is not None:
        inputs += ["-f", "lavfi", "-i", f"{video}=size=160x90:rate=10:duration={seconds}"]
    inputs += ["-f", "lavfi", "-i", f"{audio}=sample_rate=22050:duration={seconds}"]
    encoding = [*(TINY_H264_ARGUMENTS if video else ()), *TINY_AAC_ARGUMENTS, "-flvflags", "add_keyframe_index"]
    command = [find_ffmpeg(), *QUIET_ARGUMENTS, *inputs, *encoding, "-y", str(path)]
    run_to_end(command, path.with_suffix(".log"), 30.0)


def make_numbered(
    path: Path, *, gops: int, gop_frames: int = 5, frame_ms: int = 100, time_ms_of: Callable[[int], int] | None = None
) -> None:
    """A file as the recorder leaves it. Its frames hold no pictures; each is followed by a sound of the same time."""
    writer = FlvFileWriter()
    with path.open("wb") as file:
        file.write(writer.begin())
        for number in range(gops * gop_frames):
            is_key = number % gop_frames == 0
            time_ms = number * frame_ms if time_ms_of is None else time_ms_of(number)
            for kind, start in ((VIDEO_TAG, KEY if is_key else INTER), (AUDIO_TAG, SOUND)):
                payload = start + number.to_bytes(4) * 10
                head, trail = writer.add_tag(kind, time_ms, payload, is_key=is_key and kind == VIDEO_TAG)
                file.writelines((head, payload, trail))
        file.seek(0)
        file.write(writer.finish())


def manifest_row(name: str, stream: str, status: str = "closed", **changes: object) -> Row:
    """A line of a manifest as the recorder writes it."""
    return {
        "recording_id": f"rec-{stream}",
        "segment": 0,
        "path": name,
        "app": "live",
        "stream": stream,
        "status": status,
        "reason": None,
        "started_at": "2026-11-15T20:00:00Z",
        "ended_at": None if status == "open" else "2026-11-15T20:00:10Z",
        "duration_ms": 0,
        "bytes": 0,
        "video": None,
        "audio": None,
        "keyframes": 0,
        "gaps": [],
        "first_timestamp_ms": 0,
        "last_timestamp_ms": 0,
    } | changes


def write_manifest(folder: Path, rows: Iterable[Row]) -> None:
    """All of a manifest anew."""
    (folder / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def planned(path: Path | str, split_bytes: int = 0, filters: PushedFilters = NO_FILTERS) -> list[FlvPart]:
    return plan(named_files(find_files([str(path)])), split_bytes, filters)


def rows_of(parts: Iterable[FlvPart], filters: PushedFilters = NO_FILTERS, *, has_payload: bool = False) -> list[Row]:
    """What tasks would give for these parts, without Spark."""
    return [
        row
        for part in parts
        for batch in read_part(part, has_payload=has_payload, is_numbered=True, filters=filters)
        for row in batch.to_pylist()
    ]
