"""The witness of attacks: a publisher and three viewers who do nothing wrong, in a process of their own.

Owns a stream of 1 Mbit/s at 30 frames a second whose frames carry their number, the time of sending and a digest, and
the testimony of how it arrives: lost, repeated, out of order or changed frames, and delays. Plain sockets and its own
few lines of RTMP; no code of the product. The process testifies for the time since its last testimony at each line of
its standard input, and ends with it.
"""

import hashlib
import selectors
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.hostile_clients import (
    PING_REQUEST,
    PING_RESPONSE,
    SET_CHUNK_SIZE,
    USER_CONTROL,
    VIDEO,
    HostileClient,
    command,
    connect_command,
    control,
    message,
)
from tests.support.measuring import MeasuringProcess, answer, measuring_process

FRAMES_PER_S = 30
FRAME_BYTES = 1_000_000 // 8 // FRAMES_PER_S
FRAMES_PER_GOP = 30
VIEWERS = 3
STREAM_NAME = "witness"
_AVC_SETUP = bytes.fromhex("1700000000 0142c01e ff e10004 6742c01e 010004 68ce3c80")
_TAG_BYTES = 5
_CONTENTS = struct.Struct(">QQ16s")
_DRAIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Testimony:
    """What happened to the witness since it was asked last."""

    sent_frames: int
    received_frames: int
    """Of the viewer who got fewest."""
    faults: list[str]
    p50_ms: float
    p99_ms: float
    max_ms: float


class ChunkReader:
    """Whole messages out of what a server sends. Chunk streams from 64 on and long timestamps are not for viewers."""

    def __init__(self) -> None:
        self._chunk_bytes = 128
        self._data = bytearray()
        self._headers: dict[int, tuple[int, int, int, int]] = {}
        """Of each chunk stream: time, delta, length and type of its message."""
        self._bodies: dict[int, bytearray] = {}

    def messages(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Type, time and payload of each message that is whole now."""
        self._data += data
        while (csid := self._take_chunk()) is not None:
            time_ms, _, length, type_id = self._headers[csid]
            if len(self._bodies[csid]) == length:
                body = bytes(self._bodies.pop(csid))
                if type_id == SET_CHUNK_SIZE:
                    self._chunk_bytes = int.from_bytes(body, "big")
                yield type_id, time_ms, body

    def _take_chunk(self) -> int | None:
        """Move one chunk into its message, if all of it is here."""
        data = self._data
        if not data:
            return None
        fmt, csid = data[0] >> 6, data[0] & 0x3F
        size = 1 + (11, 7, 3, 0)[fmt]
        if len(data) < size:
            return None
        time_ms, delta_ms, length, type_id = self._headers.get(csid, (0, 0, 0, 0))
        if fmt < 3:
            delta_ms = int.from_bytes(data[1:4], "big")
        if fmt < 2:
            length, type_id = int.from_bytes(data[4:7], "big"), data[7]
        if csid not in self._bodies:
            time_ms = delta_ms if fmt == 0 else time_ms + delta_ms
        body = self._bodies.get(csid, bytearray())
        taken = min(self._chunk_bytes, length - len(body))
        if len(data) < size + taken:
            return None
        self._headers[csid] = (time_ms, delta_ms, length, type_id)
        self._bodies[csid] = body
        body += data[size : size + taken]
        del data[: size + taken]
        return csid


class _Viewer:
    """One who watches, counts and checks."""

    def __init__(self, client: HostileClient) -> None:
        client.greeted()
        client.send(connect_command() + command("createStream", 2.0, None))
        client.send(command("play", 3.0, None, STREAM_NAME, stream_id=1))
        self.socket = client.socket
        self.next_number: int | None = None
        self.received = 0
        self.faults: list[str] = []
        self.delays_ms: list[float] = []
        self._reader = ChunkReader()
        self._take(client.heard)
        self.socket.setblocking(False)

    def read(self) -> bool:
        """Take what has come. False once the connection is gone."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError as error:
            self.faults.append(f"a viewer was cut off: {error}")
            return False
        if not data:
            self.faults.append("a viewer was closed")
        self._take(data)
        return bool(data)

    def _take(self, data: bytes) -> None:
        for type_id, time_ms, payload in self._reader.messages(data):
            if type_id == USER_CONTROL and payload[:2] == struct.pack(">H", PING_REQUEST):
                self.socket.send(control(USER_CONTROL, struct.pack(">H", PING_RESPONSE) + payload[2:]))
            elif type_id == VIDEO and payload[1] == 1:
                self._check(time_ms, payload)

    def _check(self, time_ms: int, payload: bytes) -> None:
        number, sent_at_ns, digest = _CONTENTS.unpack_from(payload, _TAG_BYTES)
        self.delays_ms.append((time.monotonic_ns() - sent_at_ns) / 1e6)
        self.received += 1
        if hashlib.md5(payload[_TAG_BYTES + _CONTENTS.size :]).digest() != digest or len(payload) != FRAME_BYTES:
            self.faults.append(f"frame {number} was changed")
        if time_ms != _frame_time_ms(number):
            self.faults.append(f"frame {number} came with time {time_ms}")
        if self.next_number is not None and number != self.next_number:
            self.faults.append(f"frame {number} came where {self.next_number} was due")
        self.next_number = number + 1


class _Witness:
    """The publisher, its clock and its viewers."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._publisher = stack.enter_context(HostileClient(port)).publishing(STREAM_NAME)
        self._publisher.send(message(VIDEO, _AVC_SETUP, csid=6, stream_id=1))
        self._sent = 0
        self._told_sent = 0
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self._started_at = time.monotonic()
        self._send_frame()
        self._viewers = [_Viewer(stack.enter_context(HostileClient(port))) for _ in range(VIEWERS)]
        for viewer in self._viewers:
            self._selector.register(viewer.socket, selectors.EVENT_READ, viewer)
        self._publisher.socket.setblocking(False)
        self._selector.register(self._publisher.socket, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self.is_over = False

    @property
    def is_complete(self) -> bool:
        return all(viewer.next_number == self._sent for viewer in self._viewers)

    def step(self, *, sends: bool) -> None:
        """Send a frame if it is time, and take what comes until the next one."""
        due_at = self._started_at + self._sent / FRAMES_PER_S
        if sends and time.monotonic() >= due_at:
            self._send_frame()
        is_asked = False
        for key, _ in self._selector.select(max(0.0, min(due_at - time.monotonic(), 0.01))):
            if isinstance(key.data, _Viewer):
                if not key.data.read():
                    self._selector.unregister(key.fileobj)
            elif key.fileobj is sys.stdin:
                is_asked = True
            elif not self._publisher.socket.recv(1 << 16):
                raise ConnectionError("the publisher was closed")
        # Last, as it takes steps of its own.
        if is_asked:
            self._on_request()

    def _send_frame(self) -> None:
        number = self._sent
        tag = (b"\x17" if number % FRAMES_PER_GOP == 0 else b"\x27") + b"\x01\x00\x00\x00"
        filler = hashlib.shake_128(number.to_bytes(8, "big")).digest(FRAME_BYTES - _TAG_BYTES - _CONTENTS.size)
        payload = tag + _CONTENTS.pack(number, time.monotonic_ns(), hashlib.md5(filler).digest()) + filler
        self._publisher.send(message(VIDEO, payload, csid=6, stream_id=1, time_ms=_frame_time_ms(number)))
        self._publisher.socket.setblocking(False)
        self._sent += 1

    def _on_request(self) -> None:
        if not sys.stdin.readline():
            self.is_over = True
            return
        give_up_at = time.monotonic() + _DRAIN_S
        while not self.is_complete and time.monotonic() < give_up_at:
            self.step(sends=False)
        # Frames that were not sent in this pause are not owed: the clock goes on from here.
        self._started_at = time.monotonic() - self._sent / FRAMES_PER_S
        answer(asdict(self._testimony()))

    def _testimony(self) -> Testimony:
        sent, self._told_sent = self._sent - self._told_sent, self._sent
        received = min(viewer.received for viewer in self._viewers)
        delays_ms = sorted(delay for viewer in self._viewers for delay in viewer.delays_ms) or [0.0]
        faults = [fault for viewer in self._viewers for fault in viewer.faults]
        for viewer in self._viewers:
            viewer.received = 0
            viewer.faults = []
            viewer.delays_ms = []
        return Testimony(
            sent,
            received,
            faults,
            p50_ms=delays_ms[len(delays_ms) // 2],
            p99_ms=delays_ms[len(delays_ms) * 99 // 100],
            max_ms=delays_ms[-1],
        )


def _frame_time_ms(number: int) -> int:
    return number * 1000 // FRAMES_PER_S


class RunningWitness:
    """The process, seen from a test."""

    def __init__(self, process: MeasuringProcess) -> None:
        self._process = process

    def testify(self) -> Testimony:
        """What happened since the last time; every frame that was sent has had time to arrive."""
        return Testimony(**self._process.ask())


@contextmanager
def running_witness(port: int, log_path: Path) -> Iterator[RunningWitness]:
    """A witness for the length of the block, which begins when all viewers have a frame."""
    with measuring_process("tests.support.witness", port, log_path) as process:
        yield RunningWitness(process)


def main(port: int) -> None:
    with ExitStack() as stack:
        witness = _Witness(port, stack)
        while not witness.is_over:
            witness.step(sends=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
