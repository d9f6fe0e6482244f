"""From tag to tag through a part of an FLV file (Adobe FLV 10.1, annex E.4.1), thousands at a time.

Owns the chain of tag headers and what is done where it breaks. Only the way from one header to the next is a loop of
Python; all else is done on arrays. A tag is accepted by the rule of `media.flv_repair`: its kind is known, and either
its back pointer has its size or something that looks like a tag follows. Where neither is true, the walk reports damage
and resumes at the next tag whose back pointer fits, if there is one.

Memory is one reused window of the file: 8 MiB, or one tag if that is longer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.errors import MalformedMedia
from penstock.media.flv import (
    BACK_POINTER_BYTES,
    FILE_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    TAG_HEADER_BYTES,
    TAG_KINDS,
    read_file_header,
    unknown_kind,
)
from penstock.media.flv_reader import START_BYTES
from penstock.pipeline.sources.files import OpenFile

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]

WINDOW_BYTES: Final = 8 * 1024 * 1024
_TAG_OVERHEAD_BYTES: Final = TAG_HEADER_BYTES + BACK_POINTER_BYTES
# The back pointer before a tag, its header and the start of its payload.
_HEAD_BYTES: Final = BACK_POINTER_BYTES + TAG_HEADER_BYTES + START_BYTES
_KIND_AND_SIZE: Final = Struct(">I")
_IS_KIND: Final = np.isin(np.arange(256), list(TAG_KINDS))


@dataclass(frozen=True, slots=True)
class Tags:
    """Neighbouring tags. `window` holds their bytes, with the byte at `base` of the file first, until the next come."""

    offsets: Longs
    kinds: Bytes
    times_ms: Longs
    sizes: Longs
    starts: Bytes
    """The first 8 bytes of each payload; of a shorter one, also what follows it."""
    window: memoryview
    base: int

    def __len__(self) -> int:
        return len(self.offsets)

    def payload(self, index: int) -> bytes:
        begin = int(self.offsets[index]) - self.base + TAG_HEADER_BYTES
        return bytes(self.window[begin : begin + int(self.sizes[index])])

    def pieces(self, max_tags: int) -> "Iterator[Tags]":
        """The same, so many at a time."""
        for first in range(0, len(self), max_tags):
            yield self.kept(slice(first, first + max_tags))

    def kept(self, is_kept: NDArray[np.bool_] | slice) -> "Tags":
        return Tags(
            self.offsets[is_kept],
            self.kinds[is_kept],
            self.times_ms[is_kept],
            self.sizes[is_kept],
            self.starts[is_kept],
            self.window,
            self.base,
        )


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no tags: what is wrong where they begin, and how many were skipped."""

    offset: int
    skipped_bytes: int
    reason: str
    is_to_end: bool


class Walk:
    """One walk over the tags that begin between `start` and `end`. `start` must be 0 or the first byte of a tag."""

    def __init__(self, file: OpenFile, start: int, end: int, window_bytes: int = WINDOW_BYTES) -> None:
        self._file = file
        self._start = start
        self._end = min(end, file.file_bytes)
        self._base = 0
        self._filled = 0
        self._allot(window_bytes)

    def run(self) -> Iterator[Tags | Damage]:
        """Tags and damage, in the order of the file."""
        offset = self._start
        if offset == 0:
            try:
                offset = read_file_header(self._file.read_at(0, FILE_HEADER_BYTES)).first_tag_offset
            except MalformedMedia as error:
                damage = self._damage(0, error.detail)
                yield damage
                offset = damage.offset + damage.skipped_bytes
        while offset < self._end:
            tags, reason = self._step(offset)
            if len(tags):
                yield tags
                offset = int(tags.offsets[-1] + tags.sizes[-1]) + _TAG_OVERHEAD_BYTES
            if reason is not None:
                damage = self._damage(offset, reason)
                yield damage
                offset = damage.offset + damage.skipped_bytes

    def _allot(self, size: int) -> None:
        # Beyond the last byte of the file there must be room to look for a whole head.
        self._data = np.zeros(size + _HEAD_BYTES, np.uint8)
        self._view = memoryview(self._data.data)[:size]
        self._heads = np.lib.stride_tricks.as_strided(
            self._data, (size + 1, _HEAD_BYTES), (1, 1), writeable=False, subok=False
        )

    def _fill(self, offset: int, size: int = 0) -> None:
        if size > len(self._view):
            self._allot(size)
        self._base = offset
        self._filled = self._file.read_into(self._view, offset)

    def _step(self, offset: int) -> tuple[Tags, str | None]:
        """The tags of one window from `offset` on, and what is wrong with the next if it is the window's last."""
        self._fill(offset - BACK_POINTER_BYTES)
        tags, reason = self._tags()
        if not len(tags) and reason is None:
            # The one tag, with its back pointer and the header after it, is longer than the window.
            size = int.from_bytes(self._view[BACK_POINTER_BYTES + 1 : BACK_POINTER_BYTES + 4])
            self._fill(offset - BACK_POINTER_BYTES, size + 2 * (_HEAD_BYTES + _TAG_OVERHEAD_BYTES))
            tags, reason = self._tags()
        return tags, reason

    def _tags(self) -> tuple[Tags, str | None]:
        positions = np.array(self._chain(), np.int64)
        is_file_end = self._base + self._filled >= self._file.file_bytes
        following = positions[1:]
        heads = self._heads[np.minimum(positions, len(self._view)) - BACK_POINTER_BYTES]
        kinds = heads[:, 4]
        sizes = following - positions[:-1] - _TAG_OVERHEAD_BYTES
        is_kind = _IS_KIND[kinds]
        # What the head at the last position holds is known only if the window reaches that far.
        is_seen = positions + TAG_HEADER_BYTES <= self._filled
        is_like_tag = is_kind & is_seen & ~heads[:, 12:15].any(axis=1)
        back_pointers = heads[:, :4].copy().view(">u4").ravel()
        is_pointed_at = (back_pointers[1:] == sizes + TAG_HEADER_BYTES) & (following <= self._filled)
        # The last tag of a file has nothing behind it that could confirm it but its back pointer, which may be torn.
        is_whole = following - BACK_POINTER_BYTES <= self._filled
        is_last = is_whole & is_file_end & (following >= self._filled)
        is_good = is_kind[:-1] & (is_pointed_at | is_like_tag[1:] | is_last)
        good = len(is_good) if is_good.all() else int(np.argmin(is_good))
        tags = self._slice(positions, heads, sizes, good)
        if good == len(is_good):
            return tags, self._torn_header(int(positions[-1])) if is_file_end else None
        if not is_kind[good]:
            return tags, unknown_kind(int(kinds[good]), int(positions[good]) + self._base).detail
        offset = int(positions[good]) + self._base
        if following[good] + TAG_HEADER_BYTES <= self._filled or (is_file_end and is_whole[good]):
            return tags, f"neither back pointer nor next tag fits the tag at offset {offset}"
        if is_file_end:
            return tags, f"tag of {sizes[good]} bytes torn at offset {offset}"
        return tags, None

    def _chain(self) -> list[int]:
        """Where tags begin in the window, if each is as long as it says; the last of them may not be whole."""
        at = BACK_POINTER_BYTES
        last = min(self._filled - TAG_HEADER_BYTES, self._end - self._base - 1)
        positions: list[int] = []
        append = positions.append
        unpack_from = _KIND_AND_SIZE.unpack_from
        view = self._view
        while at <= last:
            append(at)
            at += (unpack_from(view, at)[0] & MAX_PAYLOAD_BYTES) + _TAG_OVERHEAD_BYTES
        append(at)
        return positions

    def _torn_header(self, position: int) -> str | None:
        """Why the end of the file is no end: less than a header is left."""
        offset = position + self._base
        return f"tag header torn at offset {offset}" if offset < self._end else None

    def _slice(self, positions: Longs, heads: Bytes, sizes: Longs, count: int) -> Tags:
        heads = heads[:count]
        low, high = heads[:, 8:11].astype(np.int64), heads[:, 11].astype(np.int64)
        times_ms = high << 24 | low[:, 0] << 16 | low[:, 1] << 8 | low[:, 2]
        return Tags(
            positions[:count] + self._base,
            heads[:, 4],
            times_ms,
            sizes[:count],
            heads[:, 15:],
            self._view,
            self._base,
        )

    def _damage(self, offset: int, reason: str) -> Damage:
        found = self._next_tag(offset + 1)
        skipped_bytes = (self._end if found is None else found) - offset
        return Damage(offset, skipped_bytes, reason, found is None)

    def _next_tag(self, offset: int) -> int | None:
        """Where the next tag begins whose back pointer fits."""
        while offset < self._end:
            self._fill(offset)
            data = self._data[: self._filled]
            if len(data) < _TAG_OVERHEAD_BYTES:
                return None
            like_tags = _IS_KIND[data[: -TAG_HEADER_BYTES + 1]]
            for zero_at in (8, 9, 10):
                like_tags = like_tags & (data[zero_at : len(data) - TAG_HEADER_BYTES + 1 + zero_at] == 0)
            for position in np.flatnonzero(like_tags).tolist():
                if offset + position < self._end and self._is_confirmed(offset + position):
                    return int(offset + position)
            offset += self._filled - TAG_HEADER_BYTES + 1
        return None

    def _is_confirmed(self, offset: int) -> bool:
        size = int.from_bytes(self._file.read_at(offset + 1, 3))
        back_pointer = self._file.read_at(offset + TAG_HEADER_BYTES + size, BACK_POINTER_BYTES)
        return back_pointer == (size + TAG_HEADER_BYTES).to_bytes(BACK_POINTER_BYTES)
