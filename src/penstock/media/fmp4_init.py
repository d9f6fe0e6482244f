"""Init segments of fragmented MP4: ftyp, and a moov that says what tracks there are and that fragments follow.

Owns the boxes from ISO 14496-12 (section 8) that are the same for every codec; what differs is the sample entry, which
`fmp4_tracks` makes. A pure function of the tracks, so that whoever writes it for the same stream writes the same bytes.
"""

from collections.abc import Sequence
from struct import pack
from typing import Final

from penstock.media.fmp4_boxes import box, full_box
from penstock.media.fmp4_tracks import TIMESCALE, Mp4Track

_MATRIX: Final = pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_UNDETERMINED_LANGUAGE: Final = 0x55C4
_ENABLED_IN_MOVIE: Final = 3
_SELF_CONTAINED: Final = 1
_VMHD_FLAGS: Final = 1
_FULL_VOLUME: Final = 0x0100


def init_segment(tracks: Sequence[Mp4Track]) -> bytes:
    """What comes before the first fragment."""
    # iso6 has all that fragments use: signed offsets, offsets from moof, and tfdt. AV1 asks for a brand of its own.
    extra = b"".join(sorted({track.brand for track in tracks if track.brand is not None}))
    ftyp = box(b"ftyp", b"iso6", bytes(4), b"iso6mp41", extra)
    next_track_id = 1 + max((track.track_id for track in tracks), default=0)
    mvhd = full_box(
        b"mvhd",
        0,
        0,
        pack(">4I", 0, 0, TIMESCALE, 0),
        pack(">IH10x", 0x10000, _FULL_VOLUME),
        _MATRIX,
        bytes(24),
        next_track_id.to_bytes(4, "big"),
    )
    trex = [full_box(b"trex", 0, 0, pack(">5I", track.track_id, 1, 0, 0, 0)) for track in tracks]
    return ftyp + box(b"moov", mvhd, *map(_trak, tracks), box(b"mvex", *trex))


def _trak(track: Mp4Track) -> bytes:
    volume = 0 if track.is_video else _FULL_VOLUME
    tkhd = full_box(
        b"tkhd",
        0,
        _ENABLED_IN_MOVIE,
        pack(">5I", 0, 0, track.track_id, 0, 0),
        pack(">8xhhHH", 0, 0, volume, 0),
        _MATRIX,
        pack(">II", track.width_px << 16, track.height_px << 16),
    )
    mdhd = full_box(b"mdhd", 0, 0, pack(">4IHH", 0, 0, TIMESCALE, 0, _UNDETERMINED_LANGUAGE, 0))
    return box(b"trak", tkhd, box(b"mdia", mdhd, _hdlr(track), _minf(track)))


def _hdlr(track: Mp4Track) -> bytes:
    handler, name = (b"vide", b"video\0") if track.is_video else (b"soun", b"audio\0")
    return full_box(b"hdlr", 0, 0, bytes(4), handler, bytes(12), name)


def _minf(track: Mp4Track) -> bytes:
    media_header = full_box(b"vmhd", 0, _VMHD_FLAGS, bytes(8)) if track.is_video else full_box(b"smhd", 0, 0, bytes(4))
    location = full_box(b"dref", 0, 0, (1).to_bytes(4, "big"), full_box(b"url ", 0, _SELF_CONTAINED))
    # The tables of samples are empty, and have to be there.
    tables = [full_box(kind, 0, 0, bytes(size)) for kind, size in ((b"stts", 4), (b"stsc", 4), (b"stsz", 8))]
    stsd = full_box(b"stsd", 0, 0, (1).to_bytes(4, "big"), track.sample_entry)
    stbl = box(b"stbl", stsd, *tables, full_box(b"stco", 0, 0, bytes(4)))
    return box(b"minf", media_header, box(b"dinf", location), stbl)
