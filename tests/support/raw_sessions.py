"""Recorded clients on real sockets: the bytes of a capture go to a server, and what comes back is read independently.

Nothing of the product is on this side of the socket. The viewer is GStreamer's recorded rtmp2src, which asks for
live/test and never takes its leave; publishers are recorded sessions, whole or up to their publish command.
"""

import socket
import time
from collections.abc import Callable, Iterable

from tests.support.golden import golden_bytes
from tests.support.independent_rtmp import HANDSHAKE_BYTES, OracleMessage, command_names, read_messages
from tests.support.samples import Sample

DEADLINE_S = 30.0
VIEWER = "sessions/gstreamer_rtmp2src_play.client.bin"
PUBLISHER = "sessions/gstreamer_rtmp2sink_publish.client.bin"
STREAM_EOF = b"\x00\x01"
# That recorded publisher stays at the chunk size that RTMP begins with.
CHUNK_BYTES = 128
MEDIA_CHUNK_STREAM = 20


class RawViewer:
    """A recorded viewer. The server has heard all that it says when this is made."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        self._received = b""
        self._socket.sendall(golden_bytes(VIEWER))
        # Its play follows createStream in the same bytes, and answers are sent when all of them were read.
        self.read_until(lambda messages: command_names(messages).count("_result") == 2)

    def read_until(self, is_enough: Callable[[list[OracleMessage]], bool]) -> list[OracleMessage]:
        """All messages so far, once they are enough."""
        give_up_at = time.monotonic() + DEADLINE_S
        while True:
            messages = read_messages(self._received) if len(self._received) >= HANDSHAKE_BYTES else []
            if is_enough(messages):
                return messages
            self._socket.settimeout(max(give_up_at - time.monotonic(), 0.001))
            data = self._socket.recv(65536)
            if not data:
                raise EOFError(f"the server closed after {len(messages)} messages")
            self._received += data

    def read_to_end(self) -> list[Sample]:
        """Audio, video and data up to the end of the stream."""
        return samples_in(self.read_until(lambda messages: any(each.payload[:2] == STREAM_EOF for each in messages)))

    def close(self) -> None:
        self._socket.close()


class RawPublisher:
    """A recorded publisher that has come as far as its publish command; what follows is given by hand."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        recorded = golden_bytes(PUBLISHER)
        publish_at = recorded.index(b"\x02\x00\x07publish")
        last_argument = b"\x02\x00\x04live"
        self._socket.sendall(recorded[: recorded.index(last_argument, publish_at) + len(last_argument)])

    def send(self, samples: Iterable[Sample]) -> None:
        """All of them in one write."""
        self._socket.sendall(b"".join(map(chunk, samples)))

    def close(self) -> None:
        finish(self._socket)


def chunk(sample: Sample) -> bytes:
    """One message in one chunk with a full header, on message stream 1."""
    size = len(sample.payload)
    if size > CHUNK_BYTES:
        raise ValueError(f"a message of {size} bytes does not fit into one chunk")
    times = sample.timestamp_ms.to_bytes(3, "big")
    header = bytes([MEDIA_CHUNK_STREAM]) + times + size.to_bytes(3, "big") + bytes([sample.type_id])
    return header + b"\x01\x00\x00\x00" + sample.payload


def replay_publisher(port: int, capture: str) -> None:
    """Send all that a recorded publisher sent."""
    connection = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
    connection.sendall(golden_bytes(f"sessions/{capture}.client.bin"))
    finish(connection)


def finish(connection: socket.socket) -> None:
    """Say that no more will come and wait for the server's end: closed with answers unread, it would be reset."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass
    connection.close()


def samples_in(messages: list[OracleMessage]) -> list[Sample]:
    """Audio, video and data, of either AMF form."""
    return [Sample(each.type_id, each.timestamp, each.payload) for each in messages if each.type_id in (8, 9, 15, 18)]
