"""A server of one viewer that sends exactly the messages a test made, and a relay that spoils one byte.

Owns a second writing of the load generator's stamp and noise, so that a slip in one of the two shows. Answers a viewer
with the fewest messages that let it play; trusts its peer; for the generator's tests alone.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MAGIC = 0x50E57ACC
TAPE_PERIOD = 65521
MASK = (1 << 64) - 1
VIDEO, AUDIO = 9, 8
CHUNK_BYTES = 65536
GOP_FRAMES = 60


def _mix(state: int) -> tuple[int, int]:
    """SplitMix64: the next state and its output."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def _tape() -> bytes:
    state, noise = 1, bytearray()
    for _ in range(TAPE_PERIOD):
        state, output = _mix(state)
        noise.append(output & 0xFF)
    return bytes(noise)


TAPE = _tape()


def payload(kind: int, sequence: int, sent_ns: int, length: int = 400) -> bytes:
    """What a publisher of stream 0 sends as its message of this number."""
    digest = _mix(sequence << 32 | length)[1] ^ sent_ns
    digest = _mix(digest)[1] ^ kind
    stamp = struct.pack(">IIQII", sequence, length, sent_ns, 0, kind)
    stamp = struct.pack(">II", MAGIC, _mix(digest)[1] & 0xFFFFFFFF) + stamp
    is_key = sequence % GOP_FRAMES == 0
    picture = bytes([0x17 if is_key else 0x27, 1, 0, 0, 0]) + struct.pack(">I", length - 9)
    prefix = picture + (b"\x65" if is_key else b"\x41") if kind == VIDEO else b"\xaf\x01"
    start = (sequence * 7919 + kind * 31) % TAPE_PERIOD
    noise = (TAPE + TAPE)[start : start + length]
    return prefix + stamp + noise[len(prefix) + len(stamp) :]


def chunk(csid: int, kind: int, body: bytes) -> bytes:
    """A message in one chunk with a full header."""
    return bytes([csid]) + bytes(3) + len(body).to_bytes(3, "big") + bytes([kind]) + struct.pack("<I", 1) + body


RESULT_OF_CONNECT = chunk(3, 20, bytes.fromhex("0200075f726573756c74003ff000000000000005"))
RESULT_OF_CREATE_STREAM = chunk(3, 20, bytes.fromhex("0200075f726573756c7400400800000000000005003ff0000000000000"))
PLAY_START = chunk(
    3,
    20,
    b"\x02\x00\x08onStatus\x00" + bytes(8) + b"\x05\x03\x00\x05level\x02\x00\x06status"
    b"\x00\x04code\x02\x00\x14NetStream.Play.Start\x00\x00\x09",
)
SET_CHUNK_SIZE = chunk(2, 1, CHUNK_BYTES.to_bytes(4, "big"))


@contextmanager
def _listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve one connection in a thread; the value is the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def run() -> None:
            with listener.accept()[0] as peer:
                peer.settimeout(10)
                serve(peer)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


@contextmanager
def stamped_server(wire: Callable[[], bytes]) -> Iterator[int]:
    """Send these bytes to the first viewer that plays, then wait until it leaves."""

    def serve(peer: socket.socket) -> None:
        _read_until(peer, lambda seen: len(seen) >= 1537)
        peer.sendall(b"\x03" + bytes(2 * 1536))
        _read_until(peer, lambda seen: b"connect" in seen)
        peer.sendall(RESULT_OF_CONNECT)
        _read_until(peer, lambda seen: b"createStream" in seen)
        peer.sendall(RESULT_OF_CREATE_STREAM)
        _read_until(peer, lambda seen: b"play" in seen)
        peer.sendall(PLAY_START + SET_CHUNK_SIZE + wire())
        while peer.recv(4096):
            pass

    with _listening(serve) as port:
        yield port


@contextmanager
def spoiling_relay(server_port: int, offset_from_magic: int) -> Iterator[int]:
    """Pass a viewer on to a server, with one byte of one message on its way back changed."""

    def serve(viewer: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", server_port), timeout=10) as server:
            upward = threading.Thread(target=_pass_on, args=(viewer, server))
            upward.start()
            _pass_on(server, viewer, offset_from_magic)
            upward.join()

    with _listening(serve) as port:
        yield port


def _pass_on(source: socket.socket, sink: socket.socket, offset_from_magic: int | None = None) -> None:
    magic = MAGIC.to_bytes(4, "big")
    try:
        while data := bytearray(source.recv(65536)):
            at = data.find(magic)
            if offset_from_magic is not None and at >= 16 and at + 200 < len(data):
                data[at + offset_from_magic] ^= 1
                offset_from_magic = None
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        # The other direction has ended first.
        return


def _read_until(peer: socket.socket, is_enough: Callable[[bytes], bool]) -> None:
    seen = b""
    while not is_enough(seen):
        data = peer.recv(65536)
        if not data:
            raise ConnectionError(f"the viewer left after {len(seen)} bytes")
        seen += data
