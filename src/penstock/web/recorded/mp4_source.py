"""A recorded file as pieces of fragmented MP4, read as they are asked for.

Owns the open file. Holds some blocks of it and one fragment at a time, however long the recording is. Every call blocks
on the disk and takes processor time, and so is made in a thread; one call at a time.
"""

import os
from pathlib import Path
from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.flv import write_file_header
from penstock.media.flv_reader import FlvReader
from penstock.media.flv_to_mp4 import FlvToMp4
from penstock.web.recorded.places import first_tags, place_of

_BLOCK_BYTES: Final = 256 * 1024


class Mp4Source:
    """One recording from a time on, for one who watches it."""

    def __init__(self, path: Path, from_s: float) -> None:
        """OSError: it cannot be opened. MalformedMedia: it is no FLV, or nothing of it can be carried in MP4."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._mp4 = FlvToMp4()
        self._reader = FlvReader()
        try:
            place = place_of(self._descriptor, round(from_s * 1000))
            self.starts_at_ms = place.time_ms
            """Of the recording: time in the MP4 counts from here."""
            for tag in first_tags(self._descriptor):
                self._mp4.set_up(tag)
            # The reader wants a head in front of tags, wherever they are from.
            self._reader.receive_data(write_file_header(has_audio=True, has_video=True))
            self._offset = place.offset
            self._first = self._read()
        except BaseException:
            os.close(self._descriptor)
            raise

    def read(self) -> bytes:
        """The next piece; none is left: b""."""
        first, self._first = self._first, b""
        return first or self._read()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _read(self) -> bytes:
        while not self._mp4.is_over:
            block = os.pread(self._descriptor, _BLOCK_BYTES, self._offset)
            if not block:
                return self._mp4.finish()
            self._offset += len(block)
            self._reader.receive_data(block)
            if pieces := self._take():
                return pieces
        return b""

    def _take(self) -> bytes:
        pieces = []
        while True:
            try:
                tag = self._reader.next_tag()
            except MalformedMedia:
                # Damaged from here on: what came before is worth seeing.
                pieces.append(self._mp4.finish())
                break
            if tag is None:
                break
            pieces.append(self._mp4.take(tag))
        return b"".join(pieces)
