"""What a message costs on its way through the protocol: CPU time per message, and its ratio to a plain copy.

Each case is timed in rounds that alternate with a reference loop over the same bytes, received from a socket and
copied once, since machines are noisy and the ratio is what travels. Every round begins from fresh sessions, and what
they read is compared with what was sent before anything is timed. Run: `python -m bench.protocol [--json]`.
"""

import argparse
import json
import multiprocessing
import random
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from penstock.amf import AmfValue, read_amf0_values, write_amf0_values
from penstock.protocol.chunk_reader import ChunkReader
from penstock.protocol.chunk_writer import ChunkWriter, write_standalone
from penstock.protocol.client_session import ClientSession
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import (
    Connected,
    ConnectRequested,
    HandshakeCompleted,
    MediaReceived,
    PublishRequested,
    PublishStarted,
    StreamCreated,
)
from penstock.protocol.message import Message, MessageType
from penstock.protocol.server_session import ServerSession

RECEIVE_BYTES = 64 * 1024
MESSAGES = 2000
ROUNDS = 7
NONCE = bytes(1528)

VIDEO = ("video", MessageType.VIDEO, 16 * 1024, 6)
AUDIO = ("audio", MessageType.AUDIO, 300, 4)

CONNECT: tuple[AmfValue, ...] = (
    "connect",
    1.0,
    {
        "app": "live",
        "type": "nonprivate",
        "flashVer": "FMLE/3.0 (compatible; Lavf59.27.100)",
        "tcUrl": "rtmp://127.0.0.1:1935/live",
        "fpad": False,
        "capabilities": 15.0,
        "audioCodecs": 4071.0,
        "videoCodecs": 252.0,
        "videoFunction": 1.0,
        "objectEncoding": 0.0,
    },
)


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of message in one framing."""

    kind: str
    chunk_size: int
    time: str
    messages: list[Message]
    wire: list[bytes]
    """The bytes in the pieces in which a socket would give them."""


@dataclass(frozen=True, slots=True)
class Figures:
    """CPU time per message in µs."""

    case: str
    chunk_size: int | None
    time: str
    reference_us: float
    read_us: float
    event_us: float | None
    write_us: float


def cases() -> Iterator[Case]:
    generator = random.Random(1)
    for kind, type_id, size, chunk_stream_id in (VIDEO, AUDIO):
        noise = generator.randbytes(size)
        for chunk_size in (128, 4096, 65536):
            for name, first_ms in (("below 0xFFFFFF", 0), ("above 0xFFFFFF", 0x1000000)):
                messages = [
                    # Sizes differ by a byte, as coded frames do, so that no header can be left out.
                    Message(type_id, first_ms + 33 * count, 1, noise[: size - count % 2], chunk_stream_id)
                    for count in range(MESSAGES)
                ]
                wire = b"".join(_written(messages, chunk_size, is_extended=first_ms > 0))
                pieces = [wire[start : start + RECEIVE_BYTES] for start in range(0, len(wire), RECEIVE_BYTES)]
                yield Case(kind, chunk_size, name, messages, pieces)


def _written(messages: list[Message], chunk_size: int, *, is_extended: bool) -> Iterator[bytes]:
    """As encoders write: deltas; or, where time is to be extended on each chunk, absolute times."""
    if is_extended:
        yield from (write_standalone(message, chunk_size) for message in messages)
        return
    writer = ChunkWriter()
    writer.chunk_size = chunk_size
    yield from map(writer.write_message, messages)


def cpu_us(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e6 / MESSAGES


def receive_and_copy(pieces: list[bytes]) -> float:
    """The reference: the same bytes from a socket, each copied once."""
    ours, theirs = socket.socketpair()
    sender = multiprocessing.get_context("fork").Process(target=_send_all, args=(theirs, pieces))
    sender.start()
    theirs.close()

    def receive() -> None:
        while data := ours.recv(RECEIVE_BYTES):
            bytearray(data)

    taken_us = cpu_us(receive)
    sender.join()
    ours.close()
    return taken_us


def _send_all(connection: socket.socket, pieces: list[bytes]) -> None:
    for piece in pieces:
        connection.sendall(piece)
    connection.close()


def read_messages(case: Case) -> Iterator[Message]:
    reader = ChunkReader()
    reader.chunk_size = case.chunk_size
    for piece in case.wire:
        reader.receive_data(piece)
        while (message := reader.next_message()) is not None:
            yield message


def read_and_drop(case: Case) -> None:
    """Nothing is kept, as a relay would not: pages touched for the first time cost more than the reading."""
    reader = ChunkReader()
    reader.chunk_size = case.chunk_size
    for piece in case.wire:
        reader.receive_data(piece)
        while reader.next_message() is not None:
            pass


def drop_all(items: Iterator[object]) -> None:
    deque(items, maxlen=0)


def pull_events(server: ServerSession, pieces: list[bytes]) -> None:
    for piece in pieces:
        server.receive_data(piece)
        while server.next_event() is not None:
            pass


def publishing_server(chunk_size: int) -> ServerSession:
    """A server session with a publisher on message stream 1 that has just begun."""
    server = ServerSession(nonce=NONCE, time_ms=0)
    client = ClientSession(nonce=NONCE, time_ms=0, settings=ConnectionSettings(chunk_size=chunk_size))
    while True:
        server.receive_data(client.data_to_send())
        while (asked := server.next_event()) is not None:
            match asked:
                case ConnectRequested():
                    server.accept_connect()
                case PublishRequested(stream_id=stream_id):
                    server.accept_publish(stream_id)
        client.receive_data(server.data_to_send())
        while (answered := client.next_event()) is not None:
            match answered:
                case HandshakeCompleted():
                    client.connect("live", "rtmp://127.0.0.1/live")
                case Connected():
                    client.create_stream()
                case StreamCreated(stream_id=stream_id):
                    client.publish(stream_id, "bench")
                case PublishStarted():
                    return server


def check(case: Case) -> None:
    """What is timed must be right first."""
    assert list(read_messages(case)) == case.messages
    server = publishing_server(case.chunk_size)
    events = []
    for piece in case.wire:
        server.receive_data(piece)
        while isinstance(event := server.next_event(), MediaReceived):
            events.append(event.payload)
    assert events == [message.payload for message in case.messages]


def measure(case: Case) -> Figures:
    check(case)
    rounds: list[tuple[float, float, float, float]] = []
    is_extended = case.time.startswith("above")
    for _ in range(ROUNDS):
        server = publishing_server(case.chunk_size)
        rounds.append(
            (
                receive_and_copy(case.wire),
                cpu_us(lambda: read_and_drop(case)),
                cpu_us(lambda server=server: pull_events(server, case.wire)),  # type: ignore[misc]
                cpu_us(lambda: drop_all(_written(case.messages, case.chunk_size, is_extended=is_extended))),
            )
        )
    reference_us, read_us, event_us, write_us = (min(column) for column in zip(*rounds, strict=True))
    return Figures(case.kind, case.chunk_size, case.time, reference_us, read_us, event_us, write_us)


def measure_connect() -> Figures:
    """An AMF0 connect, read and written; the reference receives and copies as many bytes."""
    payload = write_amf0_values(*CONNECT)
    assert read_amf0_values(payload) == list(CONNECT)
    rounds = [
        (
            receive_and_copy([payload] * MESSAGES),
            cpu_us(lambda: [read_amf0_values(payload) for _ in range(MESSAGES)]),
            cpu_us(lambda: [write_amf0_values(*CONNECT) for _ in range(MESSAGES)]),
        )
        for _ in range(ROUNDS)
    ]
    reference_us, read_us, write_us = (min(column) for column in zip(*rounds, strict=True))
    return Figures(f"AMF0 connect, {len(payload)} bytes", None, "", reference_us, read_us, None, write_us)


def table(figures: list[Figures]) -> str:
    lines = [
        "µs of CPU per message, and as a multiple of receiving and copying the same bytes",
        "",
        "| message | chunk size | time | recv + copy | read | to event | write |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for row in figures:
        cells = [
            "" if us is None else f"{us:.2f} ({us / row.reference_us:.1f}x)"
            for us in (row.read_us, row.event_us, row.write_us)
        ]
        lines.append(
            f"| {row.case} | {row.chunk_size or ''} | {row.time} | {row.reference_us:.2f} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.protocol", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    arguments = parser.parse_args()
    figures = [*map(measure, cases()), measure_connect()]
    print(json.dumps([asdict(row) for row in figures], indent=2) if arguments.json else table(figures))


if __name__ == "__main__":
    main()
