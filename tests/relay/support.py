"""Frames, logs and stores for the tests of the relay.

Encodes messages by itself, as literal headers, so that what a log sends is judged by bytes the product did not make.
"""

import struct
from collections.abc import Sequence

from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.readable_log import FrameEncoders, LogLimits
from penstock.relay.segment import MemoryBuffer, SegmentStore
from tests.support.independent_rtmp import OracleMessage, read_messages_and_tail

CHUNK_SIZE = 128
# A handshake that says nothing and Set Chunk Size, so that the independent reader takes what follows.
PRELUDE = b"\x03" + bytes(3072) + bytes.fromhex("02 000000 000004 01 00000000") + struct.pack(">I", CHUNK_SIZE)
CHUNK_STREAMS = {FrameKind.AUDIO: 4, FrameKind.VIDEO: 6, FrameKind.DATA: 8}

AVC_SETUP = bytes.fromhex("17 00 000000")
AAC_SETUP = bytes.fromhex("af 00")
METADATA = bytes.fromhex("02 000a 6f6e4d65746144617461")


def encode(kind: FrameKind, timestamp_ms: int, payload: bytes) -> bytes:
    """One message on message stream 1 with a full header, in chunks."""
    stamp = timestamp_ms & 0xFFFFFFFF
    extended = b"" if stamp < 0xFFFFFF else struct.pack(">I", stamp)
    head = bytes((CHUNK_STREAMS[kind],)) + min(stamp, 0xFFFFFF).to_bytes(3, "big") + len(payload).to_bytes(3, "big")
    head += bytes((int(kind),)) + b"\x01\x00\x00\x00" + extended
    between = bytes((0xC0 | CHUNK_STREAMS[kind],)) + extended
    chunks = [payload[start : start + CHUNK_SIZE] for start in range(0, len(payload), CHUNK_SIZE)]
    return head + between.join(chunks)


ENCODERS: FrameEncoders = {
    kind: lambda timestamp_ms, payload, kind=kind: encode(kind, timestamp_ms, payload)  # type: ignore[misc]
    for kind in FrameKind
}


def key(timestamp_ms: int, body: bytes = b"key") -> Frame:
    """An AVC key frame."""
    return frame_of(FrameKind.VIDEO, timestamp_ms, b"\x17\x01\x00\x00\x00" + body)


def inter(timestamp_ms: int, body: bytes = b"inter") -> Frame:
    """An AVC frame that needs those before it."""
    return frame_of(FrameKind.VIDEO, timestamp_ms, b"\x27\x01\x00\x00\x00" + body)


def audio(timestamp_ms: int, body: bytes = b"audio") -> Frame:
    """An AAC frame."""
    return frame_of(FrameKind.AUDIO, timestamp_ms, b"\xaf\x01" + body)


def video_setup(timestamp_ms: int = 0, body: bytes = b"avc") -> Frame:
    """An AVC sequence header."""
    return frame_of(FrameKind.VIDEO, timestamp_ms, AVC_SETUP + body)


def audio_setup(timestamp_ms: int = 0, body: bytes = b"aac") -> Frame:
    """An AAC sequence header."""
    return frame_of(FrameKind.AUDIO, timestamp_ms, AAC_SETUP + body)


def metadata(timestamp_ms: int = 0, body: bytes = bytes.fromhex("08 00000000 000009")) -> Frame:
    """An onMetaData message."""
    return frame_of(FrameKind.DATA, timestamp_ms, METADATA + body)


def caption(timestamp_ms: int, body: bytes = bytes.fromhex("02 0002 6869")) -> Frame:
    """A data message that is no set-up."""
    return frame_of(FrameKind.DATA, timestamp_ms, bytes.fromhex("02 000a 6f6e5465787444617461") + body)


class CountingBuffer(MemoryBuffer):
    """A buffer that knows whether it is open."""

    def __init__(self, store: "CountingStore") -> None:
        super().__init__()
        self._store = store
        self.size_bytes = 0
        self.is_closed = False

    def append(self, pieces: Sequence[bytes]) -> None:
        assert not self.is_closed, "written after it was closed"
        self.size_bytes += sum(map(len, pieces))
        super().append(pieces)

    def read(self, offset: int, size: int) -> bytes:
        assert not self.is_closed, "read after it was closed"
        self._store.copied_bytes += min(size, self.size_bytes - offset)
        return super().read(offset, size)

    def close(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True
        self._store.open_buffers.discard(self)
        super().close()


class CountingStore(SegmentStore):
    """Plain memory; knows which buffers are open."""

    def __init__(self) -> None:
        self.created = 0
        self.copied_bytes = 0
        """What was read, which makes a copy."""
        self.open_buffers: set[CountingBuffer] = set()

    def create(self) -> CountingBuffer:
        self.created += 1
        buffer = CountingBuffer(self)
        self.open_buffers.add(buffer)
        return buffer


def new_log(
    limits: LogLimits | None = None, budget: LogBudget | None = None, store: SegmentStore | None = None
) -> StreamLog:
    """An empty log; memory without end unless told otherwise."""
    return StreamLog(store or CountingStore(), ENCODERS, limits or LogLimits(), budget or LogBudget(1 << 40))


def fill(log: StreamLog, frames: Sequence[Frame], now: float = 0.0) -> None:
    """Append and flush each frame by itself."""
    for frame in frames:
        log.append(frame, now)
        log.flush(now)


def messages_of(sent: bytes) -> tuple[list[OracleMessage], int]:
    """The whole messages in what was sent, and how many bytes of half a message are behind them."""
    messages, tail_bytes = read_messages_and_tail(PRELUDE + sent)
    return messages[1:], tail_bytes
