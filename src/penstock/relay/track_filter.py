"""Selective reading: the same log for a viewer with another message stream id, or without audio or video.

Owns how the shared encoding is fitted to such a viewer: messages it does not want are left out, and the stream id in
each header is rewritten. Viewers with the same wishes share the result.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.media.frame import FrameKind
from penstock.relay.segment import Entry, Segment

SHARED_STREAM_ID = 1
# A type 0 chunk header on a chunk stream below 64: one byte, then time, length and type.
_STREAM_ID_OFFSET = 1 + 3 + 3 + 1
FITTED_BYTES = _STREAM_ID_OFFSET + 4
"""Of an encoded message, the only ones that are not the same for everybody."""


class TrackFilter(NamedTuple):
    """What a viewer wants of a stream."""

    stream_id: int = SHARED_STREAM_ID
    wants_audio: bool = True
    wants_video: bool = True

    @property
    def is_everything(self) -> bool:
        """Whether the shared encoding fits as it is."""
        return self == _EVERYTHING

    def wants(self, kind: FrameKind) -> bool:
        """Whether a kind of message is wanted. Data always is."""
        if kind == FrameKind.AUDIO:
            return self.wants_audio
        return self.wants_video or kind != FrameKind.VIDEO

    def fit(self, encoded: bytes) -> bytes:
        """One encoded message, or its first `FITTED_BYTES`, with this viewer's stream id."""
        if self.stream_id == SHARED_STREAM_ID:
            return encoded
        return encoded[:_STREAM_ID_OFFSET] + self.stream_id.to_bytes(4, "little") + encoded[FITTED_BYTES:]

    def read(self, segment: Segment, entries: Iterable[Entry]) -> bytes:
        """The wanted ones of some messages of a segment."""
        return b"".join(
            self.fit(segment.read(entry.position, entry.encoded_bytes)) for entry in entries if self.wants(entry.kind)
        )


_EVERYTHING = TrackFilter()
