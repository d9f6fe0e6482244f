"""PyAV's packets to frames, by way of FFmpeg's own FLV muxer.

The muxer writes into memory, and what it wrote is read back as tags. So the payloads are those of FFmpeg as a
publisher, Enhanced RTMP and its set-up records included, and no second writer of them has to be kept true.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import av
from av.container import OutputContainer
from av.packet import Packet

from penstock.errors import MalformedMedia
from penstock.media.frame import Frame
from penstock.tools.flv_frames import FlvFrames

# The sizes that the muxer would write at the end are not for a stream; unflushed packets would come late.
_OPTIONS: Final = {"flvflags": "no_duration_filesize", "flush_packets": "1"}

# From transport streams, whose set-up lies in their packets: the muxer sends this first and the real one later.
_EMPTY_AAC_SETUP: Final = b"\xaf\x00"


class _Pipe:
    """A file to PyAV. It cannot seek, so the muxer writes in order."""

    def __init__(self, flv: FlvFrames) -> None:
        self._flv = flv

    def write(self, data: bytes) -> int:
        self._flv.receive_data(data)
        return len(data)


class FlvMuxer:
    """Packets in, frames out. Streams are added to `container` before the first packet."""

    __slots__ = ("_flv", "container")

    def __init__(self) -> None:
        self._flv = FlvFrames()
        self.container: OutputContainer = av.open(_Pipe(self._flv), "w", format="flv", options=_OPTIONS)

    def mux(self, packets: "Sequence[Packet[Any]]") -> Iterator[Frame]:
        """The frames that can be sent once these packets are there."""
        self.container.mux(packets)
        return self._frames()

    def finish(self) -> Iterator[Frame]:
        """The frames that the muxer still held."""
        self.container.close()
        return self._frames()

    def _frames(self) -> Iterator[Frame]:
        return (frame for frame in self._flv.frames() if frame.payload != _EMPTY_AAC_SETUP)


def unreadable(name: str, fault: av.FFmpegError) -> MalformedMedia:
    """The error for what FFmpeg says about a file or an encoder."""
    return MalformedMedia("ffmpeg", f"{name}: {fault.strerror}")
