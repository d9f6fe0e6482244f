"""A second, plain reader of fragmented MP4, by ISO 14496-12 alone: it imports nothing of the product.

Owns the tree of boxes, and the samples of fragments as a player would find them: track, times, flags and bytes. Refuses
what does not add up, with an assertion.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

PARENTS = {b"moov", b"trak", b"mdia", b"minf", b"dinf", b"stbl", b"mvex", b"moof", b"traf"}
NOT_SYNC = 0x00010000


class Box(NamedTuple):
    """One box: where it is in the file, and what is in it."""

    kind: bytes
    start: int
    body: bytes
    children: "tuple[Box, ...]"

    def find(self, *path: bytes) -> "Box":
        """The one box at a path below this one."""
        if not path:
            return self
        (child,) = (child for child in self.children if child.kind == path[0])
        return child.find(*path[1:])

    def all(self, kind: bytes) -> "list[Box]":
        return [child for child in self.children if child.kind == kind]


class ReadSample(NamedTuple):
    """One sample of a fragment."""

    track_id: int
    dts: int
    pts: int
    duration: int
    is_sync: bool
    data: bytes


def read_boxes(data: bytes, start: int = 0, end: int | None = None) -> tuple[Box, ...]:
    """The boxes in a region, which they must fill."""
    end = len(data) if end is None else end
    boxes: list[Box] = []
    at = start
    while at < end:
        size, kind = struct.unpack_from(">I4s", data, at)
        assert 8 <= size <= end - at, f"{kind!r} of {size} bytes at {at}, the region ends at {end}"
        children = read_boxes(data, at + 8, at + size) if kind in PARENTS else ()
        boxes.append(Box(kind, at, data[at + 8 : at + size], children))
        at += size
    return tuple(boxes)


def sample_entries(data: bytes) -> dict[int, Box]:
    """Track id to the track's sample entry; the boxes in that are its children."""
    (moov,) = (each for each in read_boxes(data) if each.kind == b"moov")
    entries: dict[int, Box] = {}
    for trak in moov.all(b"trak"):
        track_id = struct.unpack_from(">I", trak.find(b"tkhd").body, 12)[0]
        handler = trak.find(b"mdia", b"hdlr").body[8:12]
        stsd = trak.find(b"mdia", b"minf", b"stbl", b"stsd")
        (entry,) = read_boxes(stsd.body, 8)
        fixed_bytes = 78 if handler == b"vide" else 28
        entries[track_id] = entry._replace(children=read_boxes(entry.body, fixed_bytes))
    return entries


def timescales(data: bytes) -> dict[int, int]:
    """Track id to ticks per second."""
    (moov,) = (each for each in read_boxes(data) if each.kind == b"moov")
    return {
        struct.unpack_from(">I", trak.find(b"tkhd").body, 12)[0]: struct.unpack_from(
            ">I", trak.find(b"mdia", b"mdhd").body, 12
        )[0]
        for trak in moov.all(b"trak")
    }


def read_samples(data: bytes) -> Iterator[ReadSample]:
    """Every sample of every fragment, in the order of the file."""
    boxes = read_boxes(data)
    for index, moof in enumerate(boxes):
        if moof.kind != b"moof":
            continue
        mdat = boxes[index + 1]
        assert mdat.kind == b"mdat", f"{mdat.kind!r} behind a moof"
        seen = mdat.start + 8
        for traf in moof.all(b"traf"):
            for sample, start, end in _samples_of(data, moof, traf):
                assert start == seen, f"payload at {start}, the last one ended at {seen}"
                seen = end
                yield sample
        assert seen == mdat.start + 8 + len(mdat.body), "payload that no sample names"


def _samples_of(data: bytes, moof: Box, traf: Box) -> Iterator[tuple[ReadSample, int, int]]:
    flags, track_id = struct.unpack_from(">II", traf.find(b"tfhd").body)
    assert flags & 0xFFFFFF == 0x020000, f"tfhd flags {flags:06x}"
    version, dts = struct.unpack_from(">B3xQ", traf.find(b"tfdt").body)
    assert version == 1, "tfdt of 32 bits"
    trun = traf.find(b"trun").body
    version_and_flags, count, offset = struct.unpack_from(">IIi", trun)
    assert version_and_flags == 0x01000F01, f"trun {version_and_flags:08x}"
    assert len(trun) == 12 + 16 * count, f"{count} samples in {len(trun)} bytes"
    start = moof.start + offset
    for duration, size, sample_flags, composition in struct.iter_unpack(">IIIi", trun[12:]):
        payload = data[start : start + size]
        assert len(payload) == size, f"sample of {size} bytes, {len(payload)} there"
        is_sync = not sample_flags & NOT_SYNC
        yield ReadSample(track_id, dts, dts + composition, duration, is_sync, payload), start, start + size
        dts += duration
        start += size
