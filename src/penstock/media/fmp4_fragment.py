"""Fragments of MP4: a moof and the head of the mdat that follows, written around payloads that are not touched.

Owns movie fragments (ISO 14496-12, section 8.8): one run of samples for each track, the payloads of a run one behind
the other and the runs in the order of their tracks. The caller writes the payloads in that order; where they are is its
own matter, so that none of them is copied here.

Times are in milliseconds of the stream. A sample whose time lies before that of its predecessor cannot be said in MP4:
it gets the predecessor's decoding time and keeps its time of presentation.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from penstock.errors import MisuseError
from penstock.media.fmp4_boxes import BOX_HEADER_BYTES, box, full_box

# Offsets in a run are signed numbers of 32 bits.
MAX_FRAGMENT_BYTES: Final = 1 << 30

_DEFAULT_BASE_IS_MOOF: Final = 0x020000
_DATA_OFFSET: Final = 0x000001
_SAMPLE_DURATION: Final = 0x000100
_SAMPLE_SIZE: Final = 0x000200
_SAMPLE_FLAGS: Final = 0x000400
_SAMPLE_OFFSET: Final = 0x000800
_TRUN_FLAGS: Final = _DATA_OFFSET | _SAMPLE_DURATION | _SAMPLE_SIZE | _SAMPLE_FLAGS | _SAMPLE_OFFSET
# sample_depends_on 2: on no other. Else on others (1), and no place to start.
_SYNC: Final = 0x02000000
_NOT_SYNC: Final = 0x01010000

_MAX_UINT32: Final = 0xFFFFFFFF
_MAX_OFFSET_MS: Final = 0x7FFFFFFF
_SAMPLE = Struct(">IIIi")


class Sample(NamedTuple):
    """One frame of one track. `timestamp_ms` is when it is decoded, as RTMP has it; it is shown `composition_ms` later.

    For audio `is_key` is true.
    """

    timestamp_ms: int
    size: int
    composition_ms: int
    is_key: bool


class TrackRun(NamedTuple):
    """The samples of one track in a fragment, at least one, and when the last of them ends."""

    track_id: int
    samples: Sequence[Sample]
    end_ms: int


def fragment_head(sequence_number: int, runs: Sequence[TrackRun]) -> bytes:
    """The boxes up to the first payload byte. `sequence_number` grows from fragment to fragment, modulo 2**32."""
    payload_bytes = sum(sample.size for run in runs for sample in run.samples)
    if not runs or not all(run.samples for run in runs):
        raise MisuseError(f"fmp4: a fragment of {len(runs)} runs, one of them without a sample or none there")
    if not all(sample.size for run in runs for sample in run.samples):
        raise MisuseError("fmp4: an empty sample, for which FFmpeg 5.1 to 8.1 refuse a whole file")
    if payload_bytes > MAX_FRAGMENT_BYTES:
        raise MisuseError(f"fmp4: a fragment of {payload_bytes} bytes, the most is {MAX_FRAGMENT_BYTES}")
    # Offsets count from the moof's first byte, so its size is needed before it is written: twice the same length.
    moof = _moof(sequence_number, runs, 0)
    moof = _moof(sequence_number, runs, len(moof) + BOX_HEADER_BYTES)
    return moof + (BOX_HEADER_BYTES + payload_bytes).to_bytes(4, "big") + b"mdat"


def decoding_times(samples: Sequence[Sample]) -> list[int]:
    """When each is decoded: never before 0, never before the one ahead of it."""
    times_ms: list[int] = []
    last_ms = 0
    for sample in samples:
        last_ms = max(last_ms, sample.timestamp_ms)
        times_ms.append(last_ms)
    return times_ms


def _moof(sequence_number: int, runs: Sequence[TrackRun], first_offset: int) -> bytes:
    trafs: list[bytes] = []
    for run in runs:
        trafs.append(_traf(run, first_offset))
        first_offset += sum(sample.size for sample in run.samples)
    mfhd = full_box(b"mfhd", 0, 0, (sequence_number & _MAX_UINT32).to_bytes(4, "big"))
    return box(b"moof", mfhd, *trafs)


def _traf(run: TrackRun, data_offset: int) -> bytes:
    times_ms = decoding_times(run.samples)
    ends_ms = [*times_ms[1:], max(times_ms[-1], run.end_ms)]
    tfhd = full_box(b"tfhd", 0, _DEFAULT_BASE_IS_MOOF, run.track_id.to_bytes(4, "big"))
    tfdt = full_box(b"tfdt", 1, 0, times_ms[0].to_bytes(8, "big"))
    rows = [
        _SAMPLE.pack(
            min(end_ms - time_ms, _MAX_UINT32),
            sample.size,
            _SYNC if sample.is_key else _NOT_SYNC,
            _bounded(sample.timestamp_ms + sample.composition_ms - time_ms),
        )
        for sample, time_ms, end_ms in zip(run.samples, times_ms, ends_ms, strict=True)
    ]
    head = len(run.samples).to_bytes(4, "big") + data_offset.to_bytes(4, "big", signed=True)
    return box(b"traf", tfhd, tfdt, full_box(b"trun", 1, _TRUN_FLAGS, head, *rows))


def _bounded(offset_ms: int) -> int:
    return max(-_MAX_OFFSET_MS, min(offset_ms, _MAX_OFFSET_MS))
