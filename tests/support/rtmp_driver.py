"""A blocking socket around our client session, for tests.

Test equipment: one thing at a time, every wait with a deadline, and everything received is kept. What the server says
that is not waited for is kept as events; a refusal is an error.
"""

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from penstock.protocol.client_session import ClientSession
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import (
    CallRefused,
    Connected,
    ConnectRefused,
    DataReceived,
    Event,
    HandshakeCompleted,
    MediaReceived,
    PlayStarted,
    PublishStarted,
    StreamCreated,
    StreamRefused,
)
from penstock.protocol.handshake import NONCE_BYTES
from penstock.protocol.session import Session
from tests.support.samples import DATA, Sample

LOOPBACK = "127.0.0.1"
DEADLINE_S = 30.0
RECEIVE_BYTES = 64 * 1024

EventKind = TypeVar("EventKind")


class DriverError(Exception):
    """The peer closed, refused, or did not do in time what was waited for."""


def send_sample(session: Session, stream_id: int, sample: Sample) -> None:
    """Queue one sample on a message stream of either role."""
    if sample.type_id == DATA:
        session.send_data(stream_id, sample.timestamp_ms, sample.payload)
    else:
        session.send_media(stream_id, sample.type_id, sample.timestamp_ms, sample.payload)


class RtmpClient:
    """A connected client with one message stream. `samples` grows while anything is waited for."""

    def __init__(self, connection: socket.socket, session: ClientSession) -> None:
        self.session = session
        self.events: list[Event] = []
        """All but audio, video and data."""
        self.samples: list[Sample] = []
        self.stream_id = 0
        self._socket = connection

    def open(self, app: str, url: str) -> None:
        """Shake hands, connect, and make the message stream."""
        self.wait_for(HandshakeCompleted)
        self.session.connect(app, url)
        self.wait_for(Connected)
        self.session.create_stream()
        self.stream_id = self.wait_for(StreamCreated).stream_id

    def publish(self, name: str) -> None:
        """Publish, as encoders do it."""
        self.session.announce_publish(name)
        self.session.publish(self.stream_id, name)
        self.wait_for(PublishStarted)

    def play(self, name: str) -> None:
        """Play what is there, or what will come."""
        self.session.play(self.stream_id, name)
        self.wait_for(PlayStarted)

    def send(self, samples: Iterable[Sample]) -> None:
        """Publish these samples, each in a write of its own."""
        for sample in samples:
            send_sample(self.session, self.stream_id, sample)
            self.flush()

    def end(self) -> None:
        """Give the message stream back: what was published or played is over."""
        self.session.delete_stream(self.stream_id)
        self.flush()

    def flush(self) -> None:
        """Send what the session has to send."""
        self._socket.settimeout(DEADLINE_S)
        self._socket.sendall(self.session.data_to_send())

    def wait_for(self, wanted: type[EventKind], deadline_s: float = DEADLINE_S) -> EventKind:
        """Read until an event of this kind comes. A refusal that is not waited for is an error."""
        give_up_at = time.monotonic() + deadline_s
        while True:
            if (event := self.session.next_event()) is not None:
                self._keep(event)
                if isinstance(event, wanted):
                    return event
                if isinstance(event, ConnectRefused | CallRefused | StreamRefused):
                    raise DriverError(f"refused while waiting for {wanted.__name__}: {event}")
                continue
            self.flush()
            if self.session.is_unfinished:
                continue
            self.session.receive_data(self._read(wanted.__name__, give_up_at))

    def _keep(self, event: Event) -> None:
        match event:
            case MediaReceived():
                self.samples.append(Sample(event.type_id, event.timestamp_ms, event.payload))
            case DataReceived():
                self.samples.append(Sample(DATA, event.timestamp_ms, event.payload))
            case _:
                self.events.append(event)

    def _read(self, waited_for: str, give_up_at: float) -> bytes:
        self._socket.settimeout(max(give_up_at - time.monotonic(), 0.001))
        so_far = f"; had {len(self.samples)} samples and {self.events}"
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise DriverError(f"waited in vain for {waited_for}{so_far}") from None
        if not data:
            raise DriverError(f"the server closed while waiting for {waited_for}{so_far}")
        return data


@contextmanager
def rtmp_client(port: int, *, app: str = "live", digest: bool = False, chunk_size: int = 4096) -> Iterator[RtmpClient]:
    """Connect for the length of the block."""
    settings = ConnectionSettings(chunk_size=chunk_size)
    session = ClientSession(nonce=os.urandom(NONCE_BYTES), time_ms=0, digest=digest, settings=settings)
    with socket.create_connection((LOOPBACK, port), DEADLINE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = RtmpClient(connection, session)
        client.open(app, f"rtmp://{LOOPBACK}:{port}/{app}")
        yield client
