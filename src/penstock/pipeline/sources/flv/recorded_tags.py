"""The tags of a recorded file one by one, over damage too, and which track each belongs to.

Turns the arrays of `sources.flv.walk` into single tags, for rules that look at frames one by one. The payload of a
tag can be had until the next tag is taken; a walk that does not ask for it never copies it.
"""

from collections.abc import Iterator
from typing import Final

from penstock.media.continuous_time import TrackKey
from penstock.media.flv import AUDIO_TAG, TAG_HEADER_BYTES, VIDEO_TAG
from penstock.media.flv_reader import START_BYTES, TagHead
from penstock.pipeline.sources.files import OpenFile
from penstock.pipeline.sources.flv.walk import Damage, Walk

_EX_AUDIO: Final = 9
_MULTITRACK: Final = {VIDEO_TAG: 6, AUDIO_TAG: 5}
_ONE_TRACK: Final = 0


class RecordedTags:
    """Every whole tag of an open file. `damages` lists the places that the walk has skipped so far."""

    __slots__ = ("_base", "_file", "_window", "damages")

    def __init__(self, file: OpenFile) -> None:
        self.damages: list[Damage] = []
        self._file = file
        self._window = memoryview(b"")
        self._base = 0

    def __iter__(self) -> Iterator[TagHead]:
        for part in Walk(self._file, 0, self._file.file_bytes).run():
            if isinstance(part, Damage):
                self.damages.append(part)
                continue
            self._window, self._base = part.window, part.base
            starts = part.starts.tobytes()
            rows = zip(
                part.kinds.tolist(), part.times_ms.tolist(), part.offsets.tolist(), part.sizes.tolist(), strict=True
            )
            for number, (kind, timestamp_ms, offset, payload_bytes) in enumerate(rows):
                start_at = number * START_BYTES
                start = starts[start_at : start_at + min(START_BYTES, payload_bytes)]
                yield TagHead(kind, timestamp_ms, offset, payload_bytes, start)

    def payload_of(self, tag: TagHead) -> bytes:
        """The payload of the tag that the walk has just come to."""
        start = tag.offset - self._base + TAG_HEADER_BYTES
        return bytes(self._window[start : start + tag.payload_bytes])


def track_of(tag: TagHead) -> TrackKey:
    """Which track's time a tag moves: tracks sent one by one have a time of their own."""
    start = tag.start
    is_enhanced = bool(start) and (start[0] & 0x80 if tag.kind == VIDEO_TAG else start[0] >> 4 == _EX_AUDIO)
    if is_enhanced and len(start) > 6 and start[0] & 0x0F == _MULTITRACK.get(tag.kind) and start[1] >> 4 == _ONE_TRACK:
        return tag.kind, start[6]
    return tag.kind, 0
