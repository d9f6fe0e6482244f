"""The archive of one recorded file: verified, made continuous, written as MP4, HLS and pictures.

Owns the order of the steps. A file with a defect always becomes a row that says so. Runs on an executor and does not
use Spark. Idempotent: nothing is done as long as file and recipe are the same.
"""

import errno
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import av
from pyarrow import fs

from penstock.errors import MalformedInput
from penstock.pipeline.jobs import outputs
from penstock.pipeline.jobs.archive_row import ArchiveOptions, ArchiveRow
from penstock.pipeline.jobs.pictures import write_sheet, write_thumbnails
from penstock.pipeline.jobs.remux import PLAYLIST_NAME, SEGMENT_SUFFIX, Remuxed, write_hls, write_mp4
from penstock.pipeline.jobs.verify import Verification, verify
from penstock.pipeline.lake.storage import Storage, StoredFile
from penstock.pipeline.sources.files import OpenFile, locate
from penstock.pipeline.sources.flv.manifest import Segment

# What FFmpeg says when it is the machine's fault; everything else that it says is about the file.
_MACHINE_ERRORS: Final = frozenset(
    (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.EMFILE)
)


def archive_segment(segment: Segment, recordings: Storage, archive: Storage, options: ArchiveOptions) -> ArchiveRow:
    """Archive one segment, if that is due. Raises nothing: its row says what went wrong."""
    row = ArchiveRow.begun(segment, options.recipe)
    try:
        file = _find(recordings, segment.path)
        made = _made_before(archive, outputs.folder_of(segment))
        if made is not None and made.holds_for(file, options.recipe):
            return made
        if file is None:
            return replace(row, status="missing", reason="the file is in the manifest but not in the folder")
        row = replace(row, bytes=file.size, modified_at_us=file.modified_at_us)
        with _opened(recordings, segment.path) as source:
            return _make(row, segment, source, archive, options)
    except Exception as fault:
        # Whatever one file brings about, the job goes on with the others, and the next run tries this one again.
        return replace(row, status="failed", reason=f"{type(fault).__name__}: {fault}")


def _make(row: ArchiveRow, segment: Segment, source: OpenFile, archive: Storage, options: ArchiveOptions) -> ArchiveRow:
    verification = verify(source)
    row = _with_verification(row, segment, verification)
    folder = outputs.folder_of(segment)
    with outputs.workspace(archive) as work:
        if verification.has_media:
            try:
                row = _write_outputs(row, source, verification, work.folder, options)
            except (av.FFmpegError, MalformedInput) as fault:
                if isinstance(fault, av.FFmpegError) and fault.errno in _MACHINE_ERRORS:
                    raise
                work.clear()
                row = replace(row, status="unusable", reason=_joined(row.reason, _words(fault)))
        sizes = work.put_in_place(folder)
    row = _with_outputs(row, folder, sizes)
    outputs.write_mark(archive, folder, {"row": asdict(row), "outputs": sizes})
    return row


def _write_outputs(
    row: ArchiveRow, source: OpenFile, verification: Verification, folder: Path, options: ArchiveOptions
) -> ArchiveRow:
    mp4_path = folder / outputs.MP4_NAME
    remuxed = write_mp4(source, verification, mp4_path)
    write_hls(mp4_path, folder / outputs.HLS_FOLDER, options.hls_segment_s)
    reasons = [*remuxed.left_out, *_write_pictures(remuxed, mp4_path, folder, options)]
    status = "archived" if verification.damage is None else "damaged"
    return replace(row, status=status, reason=_joined(row.reason, *reasons))


def _write_pictures(remuxed: Remuxed, mp4_path: Path, folder: Path, options: ArchiveOptions) -> list[str]:
    """Make the pictures, and say why there are none of a recording that has some."""
    if not remuxed.has_video:
        return []
    every_s, width_px = options.thumbnail_every_s, options.thumbnail_width_px
    thumbnails = write_thumbnails(mp4_path, folder / outputs.THUMBNAIL_FOLDER, every_s, width_px)
    if not thumbnails:
        return ["no key frame could be decoded"]
    write_sheet(thumbnails, folder / outputs.SHEET_NAME)
    return []


def _with_verification(row: ArchiveRow, segment: Segment, found: Verification) -> ArchiveRow:
    reasons = [found.damage]
    if not found.has_media and found.damage is None:
        reasons.append("it has neither video nor audio")
    if found.index == "wrong":
        reasons.append("its key frame index is wrong")
    if row.bytes != segment.bytes:
        reasons.append(f"the manifest says {segment.bytes} bytes")
    return replace(
        row,
        status="unusable",
        reason=_joined(*reasons),
        tags=found.tags,
        damaged_places=found.damaged_places,
        damaged_bytes=found.damaged_bytes,
        duration_ms=found.duration_ms,
        keyframes=found.keyframes,
        keyframe_index=found.index,
        gaps=found.gaps,
        gap_ms=found.gap_ms,
        timestamp_jumps=len(found.jumps),
        jumps=json.dumps([asdict(jump) for jump in found.jumps]),
        moved_frames=found.moved_frames,
    )


def _with_outputs(row: ArchiveRow, folder: str, sizes: dict[str, int]) -> ArchiveRow:
    if outputs.MP4_NAME not in sizes:
        return row
    hls = {name: size for name, size in sizes.items() if name.startswith(f"{outputs.HLS_FOLDER}/")}
    return replace(
        row,
        mp4_path=f"{folder}/{outputs.MP4_NAME}",
        mp4_bytes=sizes[outputs.MP4_NAME],
        hls_path=f"{folder}/{outputs.HLS_FOLDER}/{PLAYLIST_NAME}",
        hls_bytes=sum(hls.values()),
        hls_segments=sum(name.endswith(SEGMENT_SUFFIX) for name in hls),
        sheet_path=f"{folder}/{outputs.SHEET_NAME}" if outputs.SHEET_NAME in sizes else None,
        thumbnails=sum(name.startswith(f"{outputs.THUMBNAIL_FOLDER}/") for name in sizes),
    )


def _words(fault: av.FFmpegError | MalformedInput) -> str:
    # FFmpeg's text names a file in our work folder, which is gone when it is read.
    return fault.detail if isinstance(fault, MalformedInput) else f"FFmpeg: {fault.strerror}"


def _joined(*reasons: str | None) -> str | None:
    return "; ".join(reason for reason in reasons if reason) or None


def _made_before(archive: Storage, folder: str) -> ArchiveRow | None:
    mark = outputs.read_mark(archive, folder)
    try:
        return None if mark is None else ArchiveRow.of_json(mark["row"])
    except (KeyError, TypeError):
        return None  # not a mark of ours


def _find(recordings: Storage, path: str) -> StoredFile | None:
    info = recordings.fs.get_file_info(recordings.path_for_arrow(path))
    if info.type != fs.FileType.File:
        return None
    return StoredFile(path, info.size, (info.mtime_ns or 0) // 1000)


@contextmanager
def _opened(recordings: Storage, path: str) -> Iterator[OpenFile]:
    """A recorded file, or a local copy of it: it is read in many places, more than once."""
    if recordings.is_local:
        with OpenFile(locate(recordings.address(path))) as file:
            yield file
        return
    with tempfile.NamedTemporaryFile(suffix=".flv") as copy:
        with recordings.fs.open_input_stream(recordings.path_for_arrow(path)) as source:
            shutil.copyfileobj(source, copy, 1024 * 1024)
        copy.flush()
        with OpenFile(locate(copy.name)) as file:
            yield file
