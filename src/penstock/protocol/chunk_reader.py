"""Chunk streams (RTMP 1.0, section 5.3), the reading half: bytes in, whole messages out.

Owns header compression, reassembly, the extended timestamp and the bounds on what a peer may make us hold. Knows no
commands, sessions or sockets, and of time what it is told. A Set Chunk Size or Abort that it delivers is obeyed by its
caller, through `chunk_size` and `abort`, before the next message is asked for.

How it is fast: a message whose bytes are all here is cut out at once, and the headers of a whole run of
continuation chunks are checked by one strided slice and removed by one strided delete, so that the cost hardly
depends on the chunk size. What is not whole is moved out of the receive buffer at once, so that feeding never
copies what was already read.

How it is bounded: each header and each run of bodies is a unit of work, and so is a message cut out at once. A caller
that gives `next_message` a count of units gets control back when it is reached, whatever the bytes look like.
"""

# Long because: the short and the long way through a message are one state, and must be read side by side.

from dataclasses import dataclass
from struct import Struct

from penstock.errors import ProtocolViolation
from penstock.protocol.extended_habit import guess_habit
from penstock.protocol.message import DEFAULT_CHUNK_SIZE, EXTENDED, MAX_MESSAGE_BYTES, Message
from penstock.protocol.work import UNLIMITED, WorkMeter

_HEADER_BYTES = (11, 7, 3, 0)
_THREE_WORDS = Struct(">III")
_TWO_WORDS = Struct(">II")
_NO_BYTES = b""
# Chunks of a run that are looked at in one step. The rest of the run is the next step's; without a bound, a peer that
# interleaves two messages in chunks of one byte would have all that is here copied for each of those bytes.
_MAX_RUN_CHUNKS = 256
# Half the cost of calling Message: its own constructor is Python code around this.
_new_tuple = tuple.__new__


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """What one connection may make us hold."""

    max_buffered_bytes: int = 20 * 1024 * 1024
    """Bytes really held: what is fed and unread, and all half messages together."""

    max_chunk_streams: int = 128
    """Chunk streams with remembered headers. Their numbers may be any of 2..65599."""


class _ChunkStream:
    """What the peer may leave out of the next header, and the message in hand."""

    __slots__ = (
        "began_at",
        "body",
        "continuation",
        "delta_ms",
        "extended",
        "length",
        "missing",
        "raw_stream_id",
        "stream_id",
        "timestamp_ms",
        "type_id",
    )

    def __init__(self, continuation: bytes) -> None:
        self.continuation = continuation
        self.began_at = 0.0
        """When the message in hand began, by the clock that comes with the data."""
        self.timestamp_ms = 0
        self.delta_ms = 0
        self.extended: bytes | None = None
        self.length = 0
        self.type_id = 0
        self.stream_id = 0
        self.raw_stream_id = 0
        self.body: bytearray | None = None
        self.missing = 0


class ChunkReader:
    """Feed bytes, take messages one at a time."""

    __slots__ = (
        "_buffer",
        "_chunk_left",
        "_half_message_bytes",
        "_limits",
        "_now",
        "_open",
        "_open_id",
        "_position",
        "_repeats_extended",
        "_streams",
        "_work",
        "chunk_size",
        "max_message_bytes",
        "needs_bytes",
    )

    def __init__(
        self,
        limits: ChunkLimits | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        work: WorkMeter | None = None,
    ) -> None:
        self.chunk_size = DEFAULT_CHUNK_SIZE
        self.max_message_bytes = max_message_bytes
        self.needs_bytes = True
        """Whether the last `next_message` ended for want of bytes, and none came since."""
        self._work = work or WorkMeter()
        self._limits = limits or ChunkLimits()
        self._streams: dict[int, _ChunkStream] = {}
        self._buffer = _NO_BYTES
        self._position = 0
        self._now = 0.0
        self._half_message_bytes = 0
        self._open: _ChunkStream | None = None
        """The chunk stream whose chunk is being read; None where a header comes next."""
        self._open_id = 0
        self._chunk_left = 0
        self._repeats_extended: bool | None = None
        """Whether the peer repeats the extended timestamp on continuations; None until its bytes have told."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes held for the peer: unread, and in half messages."""
        return len(self._buffer) - self._position + self._half_message_bytes

    @property
    def oldest_half_message_at(self) -> float | None:
        """When the oldest message that is not whole began; None if there is none."""
        return min((stream.began_at for stream in self._streams.values() if stream.body is not None), default=None)

    def receive_data(self, data: bytes, now: float = 0.0) -> None:
        """Take what the peer sent, at this time. Copies only if something fed before is still unread."""
        self._now = now
        if self._position == len(self._buffer):
            self._buffer = data
        else:
            self._buffer = self._buffer[self._position :] + data
        self._position = 0
        self.needs_bytes = False
        if len(self._buffer) + self._half_message_bytes > self._limits.max_buffered_bytes:
            raise ProtocolViolation(
                "chunk",
                f"{len(self._buffer)} bytes unread and {self._half_message_bytes} in half messages,"
                f" at most {self._limits.max_buffered_bytes} are held",
            )

    def abort(self, chunk_stream_id: int) -> None:
        """Drop the half message on a chunk stream; its headers stay remembered. Nothing to drop is no error."""
        stream = self._streams.get(chunk_stream_id)
        if stream is not None and stream.body is not None:
            self._half_message_bytes -= len(stream.body)
            stream.body = None

    def next_message(self, stop_at: int = UNLIMITED) -> Message | None:
        """The next whole message, or None if more bytes are needed or so much work is done."""
        work = self._work
        while work.done < stop_at:
            stream = self._open
            if stream is not None:
                work.done += 1
                message = self._read_body(stream)
                if message is not None:
                    return message
                if self._open is not None:
                    break
                continue
            buffer = self._buffer
            position = self._position
            if position >= len(buffer):
                # What is read is let go: an idle peer would keep its last 64 kB alive.
                self._buffer = _NO_BYTES
                self._position = 0
                break
            work.done += 1
            first = buffer[position]
            stream = self._streams.get(first & 0x3F)
            # The shape of nearly all messages: a known chunk stream below 64, a type 0 or 1 header, no message in
            # hand, and bytes enough for the longest such header. Everything else takes the long way round.
            if stream is not None and first < 0x80 and stream.body is None and position + 16 <= len(buffer):
                if (message := self._read_common(stream, first)) is not None:
                    return message
            elif not self._read_header(first):
                break
        else:
            return None
        self.needs_bytes = True
        return None

    def _read_common(self, stream: _ChunkStream, first: int) -> Message | None:
        """Read the common header, and the message with it if that is here in unbroken chunks; else open its chunk."""
        buffer = self._buffer
        position = self._position
        if first >= 0x40:
            word0, word1 = _TWO_WORDS.unpack_from(buffer, position)
            position += 8
        else:
            word0, word1, raw_stream_id = _THREE_WORDS.unpack_from(buffer, position)
            position += 12
            if raw_stream_id != stream.raw_stream_id:
                stream.raw_stream_id = raw_stream_id
                stream.stream_id = int.from_bytes(buffer[position - 4 : position], "little")
        delta_ms = word0 & 0xFFFFFF
        extended: bytes | None = None
        if delta_ms == EXTENDED:
            extended = buffer[position : position + 4]
            delta_ms = int.from_bytes(extended, "big")
            position += 4
        timestamp_ms = (stream.timestamp_ms + delta_ms) & 0xFFFFFFFF if first >= 0x40 else delta_ms
        length = word1 >> 8
        stream.extended = extended
        stream.timestamp_ms = timestamp_ms
        stream.delta_ms = delta_ms
        stream.length = length
        stream.type_id = type_id = word1 & 0xFF

        payload: bytes | None = None
        chunk_size = self.chunk_size
        end = position + length
        if length <= chunk_size:
            if end <= len(buffer):
                payload = buffer[position:end]
        elif extended is None:
            heads = (length - 1) // chunk_size
            end += heads
            stride = chunk_size + 1
            is_short = heads <= _MAX_RUN_CHUNKS and end <= len(buffer)
            if is_short and buffer[position + chunk_size : end : stride].count(first | 0xC0) == heads:
                body = bytearray(memoryview(buffer)[position:end])
                del body[chunk_size::stride]
                payload = bytes(body)
        if payload is None or length > self.max_message_bytes:
            self._position = position
            self._begin_message(first & 0x3F, stream)
            return None
        self._position = end
        return _new_tuple(Message, (type_id, timestamp_ms, stream.stream_id, payload, first & 0x3F))

    def _begin_message(self, chunk_stream_id: int, stream: _ChunkStream) -> None:
        if stream.length > self.max_message_bytes:
            raise ProtocolViolation(
                "chunk",
                f"message of {stream.length} bytes (type {stream.type_id}) on chunk stream {chunk_stream_id},"
                f" at most {self.max_message_bytes} are taken now",
            )
        stream.began_at = self._now
        stream.body = bytearray()
        stream.missing = stream.length
        self._open = stream
        self._open_id = chunk_stream_id
        self._chunk_left = min(self.chunk_size, stream.length)

    def _read_header(self, first: int) -> bool:
        """Read any chunk header at the position and open its chunk; False if not all of it is here."""
        buffer = self._buffer
        position = self._position
        available = len(buffer) - position
        chunk_type = first >> 6
        chunk_stream_id = first & 0x3F
        basic_bytes = 1
        if chunk_stream_id < 2:
            basic_bytes = 2 + chunk_stream_id
            if available < basic_bytes:
                return False
            chunk_stream_id = 64 + int.from_bytes(buffer[position + 1 : position + basic_bytes], "little")
        header_end = position + basic_bytes + _HEADER_BYTES[chunk_type]
        if header_end > len(buffer):
            return False
        stream = self._streams.get(chunk_stream_id)
        if stream is None:
            stream = self._new_stream(chunk_type, chunk_stream_id, bytes(buffer[position : position + basic_bytes]))
        if stream.body is not None:
            return self._read_continuation(chunk_type, chunk_stream_id, stream, position + basic_bytes)
        if chunk_type == 3:
            return self._read_repeated_header(chunk_stream_id, stream, header_end)

        fields = buffer[position + basic_bytes : header_end]
        time_field = int.from_bytes(fields[:3], "big")
        extended: bytes | None = None
        if time_field == EXTENDED:
            extended = buffer[header_end : header_end + 4]
            if len(extended) < 4:
                return False
            time_field = int.from_bytes(extended, "big")
            header_end += 4
        # After a type 0 header the delta of a type 3 message is that header's time field: the specification says so,
        # and FFmpeg writes by it.
        stream.delta_ms = time_field
        stream.timestamp_ms = time_field if chunk_type == 0 else (stream.timestamp_ms + time_field) & 0xFFFFFFFF
        stream.extended = extended
        if chunk_type < 2:
            stream.length = int.from_bytes(fields[3:6], "big")
            stream.type_id = fields[6]
        if chunk_type == 0:
            stream.stream_id = int.from_bytes(fields[7:11], "little")
            stream.raw_stream_id = int.from_bytes(fields[7:11], "big")
        self._streams[chunk_stream_id] = stream
        self._position = header_end
        self._begin_message(chunk_stream_id, stream)
        return True

    def _new_stream(self, chunk_type: int, chunk_stream_id: int, basic_header: bytes) -> _ChunkStream:
        # librtmp opens chunk stream 2 with a type 1 header when it pings: time counts from 0 then.
        if chunk_type > 1:
            raise ProtocolViolation("chunk", f"type {chunk_type} header on unseen chunk stream {chunk_stream_id}")
        if len(self._streams) >= self._limits.max_chunk_streams:
            raise ProtocolViolation(
                "chunk",
                f"chunk stream {chunk_stream_id} would be one more than the {self._limits.max_chunk_streams} held",
            )
        return _ChunkStream(bytes([basic_header[0] | 0xC0]) + basic_header[1:])

    def _read_repeated_header(self, chunk_stream_id: int, stream: _ChunkStream, header_end: int) -> bool:
        """A type 3 header that opens a new message: everything is as before, the time moves on by the last delta."""
        if stream.extended is not None and self._repeats_extended is not False:
            extended = self._buffer[header_end : header_end + 4]
            if len(extended) < 4:
                return False
            if self._repeats_extended or extended == stream.extended:
                header_end += 4
        stream.timestamp_ms = (stream.timestamp_ms + stream.delta_ms) & 0xFFFFFFFF
        self._position = header_end
        self._begin_message(chunk_stream_id, stream)
        return True

    def _read_continuation(self, chunk_type: int, chunk_stream_id: int, stream: _ChunkStream, position: int) -> bool:
        """The header of a further chunk of the message in hand."""
        if chunk_type == 1:
            # Some encoders put a type 1 header on every chunk of a message; SRS bears with them while the length
            # stays the same, and so do we. Any other header here means that the two sides have lost each other.
            word0, word1 = _TWO_WORDS.unpack_from(self._buffer, position - 1)
            if word1 != stream.length << 8 | stream.type_id or word0 & 0xFFFFFF == EXTENDED:
                raise self._lost_step(chunk_type, chunk_stream_id, stream)
            position += 7
        elif chunk_type != 3:
            raise self._lost_step(chunk_type, chunk_stream_id, stream)
        elif stream.extended is not None:
            repeats = self._repeats_extended
            if repeats is None:
                guess = guess_habit(
                    self._buffer,
                    position,
                    stream.extended,
                    stream.continuation,
                    chunk_bytes=min(self.chunk_size, stream.missing),
                    missing_bytes=stream.missing,
                )
                repeats = guess.repeats
                if guess.is_certain:
                    self._repeats_extended = repeats
            if repeats is None or (repeats and position + 4 > len(self._buffer)):
                return False
            position += 4 * repeats
        self._position = position
        self._open = stream
        self._open_id = chunk_stream_id
        self._chunk_left = min(self.chunk_size, stream.missing)
        return True

    def _lost_step(self, chunk_type: int, chunk_stream_id: int, stream: _ChunkStream) -> ProtocolViolation:
        return ProtocolViolation(
            "chunk",
            f"type {chunk_type} header on chunk stream {chunk_stream_id} inside a message (type {stream.type_id},"
            f" {stream.length - stream.missing} of {stream.length} bytes read)",
        )

    def _read_body(self, stream: _ChunkStream) -> Message | None:
        """Take what is here of the open chunk and of the continuations that follow it without a break.

        Leaves `_open` set if the bytes ended inside a chunk, and clears it where a header comes next.
        """
        position = self._position
        available = len(self._buffer) - position
        missing = stream.missing
        left = self._chunk_left
        chunk_size = self.chunk_size
        take = min(left, available)
        inside_chunk = take < left
        region: bytes | bytearray
        if missing == left or available <= left or (stream.extended is not None and self._repeats_extended is None):
            region = self._buffer[position : position + take]
            left -= take
        else:
            known_head = stream.continuation
            head_bytes = (
                len(known_head) if stream.extended is None or not self._repeats_extended else len(known_head) + 4
            )
            stride = chunk_size + head_bytes
            take = min(
                missing + head_bytes * -(-(missing - left) // chunk_size), left + stride * _MAX_RUN_CHUNKS, available
            )
            heads, rest = divmod(take - left, stride)
            if rest < head_bytes:
                take -= rest
                rest = 0
            else:
                heads += 1
            region = bytearray(memoryview(self._buffer)[position : position + take])
            unbroken = heads
            for column, expected in enumerate(known_head):
                found = region[left + column :: stride]
                if found.count(expected) != heads:
                    unbroken = min(unbroken, heads - len(found.lstrip(bytes((expected,)))))
            if unbroken < heads:
                take = left + unbroken * stride
                del region[take:]
                rest = 0
            for column in reversed(range(head_bytes)):
                del region[left + column :: stride]
                stride -= 1
            inside_chunk = rest > 0
            left = chunk_size + head_bytes - rest
        self._position = position + take
        return self._add_to_message(stream, region, left if inside_chunk else 0)

    def _add_to_message(self, stream: _ChunkStream, region: bytes | bytearray, chunk_left: int) -> Message | None:
        body = stream.body or bytearray()
        stream.missing -= len(region)
        if stream.missing == 0:
            self._half_message_bytes -= len(body)
            self._open = stream.body = None
            if body:
                body += region
                region = body
            payload = bytes(region)
            return Message(stream.type_id, stream.timestamp_ms, stream.stream_id, payload, self._open_id)
        body += region
        stream.body = body
        self._half_message_bytes += len(region)
        self._chunk_left = min(chunk_left, stream.missing)
        if chunk_left == 0:
            self._open = None
        return None
