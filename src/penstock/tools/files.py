"""Files as sources of frames: FLV by our own reader, every other container through PyAV, never encoded anew.

Of a container the best video and the best audio stream travel, as FFmpeg chooses them. Refuses codecs that Enhanced
RTMP has no place for. PyAV's packets become frames by way of FFmpeg's own FLV muxer: it writes into memory, and what it
wrote is read back as tags. So the payloads are those of FFmpeg as a publisher, Enhanced RTMP and its sequence headers
included, and no second writer of them has to be kept true.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import av
from av.container import InputContainer, OutputContainer
from av.packet import Packet

from penstock.errors import MalformedMedia
from penstock.media.frame import Frame
from penstock.tools.flv import FlvFrames, flv_file_frames

CODECS: Final = ("h264", "hevc", "av1", "vp9", "aac", "opus", "mp3", "flac")
_FLV_SIGNATURE: Final = b"FLV"
# Above the number of pictures that any codec holds back.
_MAX_UNTIMED_PACKETS: Final = 32
# Where a file is joined to itself: about one frame, so that neither picture nor sound hurries.
_SEAM_MS: Final = 33
# The sizes that the muxer would write at the end are not for a stream; unflushed packets would come late.
_OPTIONS: Final = {"flvflags": "no_duration_filesize", "flush_packets": "1"}

# From transport streams, whose set-up lies in their packets: the muxer sends this first and the real one later.
_EMPTY_AAC_SETUP: Final = b"\xaf\x00"


def is_flv(path: Path) -> bool:
    """Whether a file starts as FLV files do."""
    with path.open("rb") as file:
        return file.read(len(_FLV_SIGNATURE)) == _FLV_SIGNATURE


def file_frames(path: Path) -> Iterator[Frame]:
    """All frames of a file, in its order."""
    if not is_flv(path):
        yield from _container_frames(path)
        return
    with path.open("rb") as file:
        yield from flv_file_frames(file)


def looped(make_frames: Callable[[], Iterator[Frame]]) -> Iterator[Frame]:
    """The same frames again and again, each round after the one before. Ends if a round has none."""
    offset_ms = 0
    while True:
        last_ms: int | None = None
        for frame in make_frames():
            moved = frame._replace(timestamp_ms=frame.timestamp_ms + offset_ms)
            last_ms = moved.timestamp_ms if last_ms is None else max(last_ms, moved.timestamp_ms)
            yield moved
        if last_ms is None:
            return
        offset_ms = last_ms + _SEAM_MS


def limited(frames: Iterator[Frame], seconds: float) -> Iterator[Frame]:
    """The frames of the first so many seconds."""
    first_ms: int | None = None
    for frame in frames:
        if not frame.is_setup:
            first_ms = frame.timestamp_ms if first_ms is None else first_ms
            if frame.timestamp_ms - first_ms >= seconds * 1000:
                return
        yield frame


def _container_frames(path: Path) -> Iterator[Frame]:
    try:
        with av.open(str(path)) as container:
            yield from _remuxed(path, container)
    except av.FFmpegError as fault:
        raise unreadable(str(path), fault) from fault


def _remuxed(path: Path, container: InputContainer) -> Iterator[Frame]:
    muxer = FlvMuxer()
    outputs = {}
    for stream in (container.streams.best("video"), container.streams.best("audio")):
        if stream is None:
            continue
        codec = stream.codec.canonical_name
        if codec not in CODECS:
            raise MalformedMedia("file", f"{path}: RTMP cannot carry {codec}; it can carry {', '.join(CODECS)}")
        outputs[stream.index] = muxer.container.add_stream_from_template(stream)
    if not outputs:
        raise MalformedMedia("file", f"{path} has neither video nor audio")
    for packet in timed_packets(container.demux([container.streams[index] for index in outputs])):
        if packet.dts is None:
            raise MalformedMedia("file", f"{path} does not say when its packets are due")
        packet.stream = outputs[packet.stream.index]
        yield from muxer.mux([packet])
    yield from muxer.finish()


def timed_packets(packets: "Iterator[Packet[Any]]") -> "Iterator[Packet[Any]]":
    """Every packet, with a time of decoding if there is any way to know it.

    Matroska has none, and FFmpeg finds it out only after some packets, from where it is reckoned back. Raw streams have
    no times at all.
    """
    untimed: dict[int, list[Packet[Any]]] = {}
    for packet in packets:
        # An empty packet tells the end to decoders, of which there are none here.
        if not packet.size:
            continue
        held = untimed.setdefault(packet.stream.index, [])
        if packet.dts is None and len(held) < _MAX_UNTIMED_PACKETS:
            held.append(packet)
            continue
        for distance, early in zip(range(len(held), 0, -1), held, strict=True):
            if packet.dts is not None:
                early.dts = packet.dts - distance * max(packet.duration or 0, 1)
            yield early
        held.clear()
        yield packet
    for held in untimed.values():
        yield from held


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
