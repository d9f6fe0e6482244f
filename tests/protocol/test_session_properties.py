"""Two sessions joined by a wire: whatever the cuts, both reach the same state and nothing is lost."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.client_session import ClientSession
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import (
    Connected,
    Event,
    HandshakeCompleted,
    MediaReceived,
    PlayStarted,
    PublishStarted,
    StreamCreated,
)
from penstock.protocol.server_session import ServerSession
from penstock.protocol.states import ConnectionState, StreamState
from tests.support.cuts import random_cuts
from tests.support.session_runs import events_of, new_client, new_server, pull

chunk_sizes = st.one_of(st.integers(1, 300), st.sampled_from([4096, 65536, 0x7FFFFFFF]))
media = st.tuples(
    st.sampled_from([8, 9]), st.integers(0, 0x3FFFFFFF), st.one_of(st.binary(max_size=50), st.binary(max_size=2000))
)


@dataclass
class Wire:
    """Carries bytes between two sessions in pieces that depend on a seed."""

    server: ServerSession
    client: ClientSession
    seed: int
    server_events: list[Event] = field(default_factory=list)
    client_events: list[Event] = field(default_factory=list)
    plays: bool = False

    def run(self) -> None:
        """Carry until neither has anything more to say."""
        while True:
            to_server, to_client = self.client.data_to_send(), self.server.data_to_send()
            if not to_server and not to_client:
                return
            for piece in random_cuts(to_server, self.seed):
                self.server.receive_data(piece)
                self.server_events += pull(self.server)
            for piece in random_cuts(to_client, self.seed + 1):
                self.client.receive_data(piece)
                self._pull_client()

    def _pull_client(self) -> None:
        for event in events_of(self.client):
            self.client_events.append(event)
            match event:
                case HandshakeCompleted():
                    self.client.connect("live", "rtmp://h/live")
                case Connected():
                    self.client.create_stream()
                case StreamCreated(stream_id=stream_id) if self.plays:
                    self.client.play(stream_id, "test")
                case StreamCreated(stream_id=stream_id):
                    self.client.publish(stream_id, "test")
                case _:
                    pass


def joined(client_chunk: int, server_chunk: int, seed: int, *, digest: bool, plays: bool = False) -> Wire:
    server = new_server(ConnectionSettings(chunk_size=server_chunk))
    client = new_client(ConnectionSettings(chunk_size=client_chunk), digest=digest)
    wire = Wire(server, client, seed, plays=plays)
    wire.run()
    return wire


@given(chunk_sizes, chunk_sizes, st.integers(0, 2**16), st.booleans(), st.lists(media, max_size=8))
def test_what_a_client_publishes_the_server_receives(
    client_chunk: int, server_chunk: int, seed: int, digest: bool, sent: list[tuple[int, int, bytes]]
) -> None:
    wire = joined(client_chunk, server_chunk, seed, digest=digest)
    assert wire.client_events[-1] == PublishStarted(1)
    assert wire.server_events[0] == HandshakeCompleted(used_digest=digest)
    for type_id, timestamp_ms, payload in sent:
        wire.client.send_media(1, type_id, timestamp_ms, payload)
    wire.run()
    received = [event for event in wire.server_events if isinstance(event, MediaReceived)]
    assert [(e.type_id, e.timestamp_ms & 0xFFFFFFFF, e.payload) for e in received] == sent
    for session in (wire.server, wire.client):
        assert session.state is ConnectionState.CONNECTED
        assert session.stream_state(1) is StreamState.PUBLISHING
        assert session.buffered_bytes == 0


@given(chunk_sizes, chunk_sizes, st.integers(0, 2**16), st.lists(media, max_size=8))
def test_what_a_server_sends_the_client_plays(
    client_chunk: int, server_chunk: int, seed: int, sent: list[tuple[int, int, bytes]]
) -> None:
    wire = joined(client_chunk, server_chunk, seed, digest=False, plays=True)
    assert PlayStarted(1) in wire.client_events
    for type_id, timestamp_ms, payload in sent:
        wire.server.send_media(1, type_id, timestamp_ms, payload)
    wire.run()
    received = [event for event in wire.client_events if isinstance(event, MediaReceived)]
    assert [(e.type_id, e.timestamp_ms & 0xFFFFFFFF, e.payload) for e in received] == sent
    for session in (wire.server, wire.client):
        assert session.stream_state(1) is StreamState.PLAYING


@given(chunk_sizes, st.integers(0, 2**16))
def test_both_sides_agree_after_every_end(chunk_size: int, seed: int) -> None:
    wire = joined(chunk_size, chunk_size, seed, digest=False)
    wire.client.close_stream(1)
    wire.run()
    assert wire.server.stream_state(1) is wire.client.stream_state(1) is StreamState.IDLE
    wire.client.publish(1, "again")
    wire.run()
    assert wire.server.stream_state(1) is wire.client.stream_state(1) is StreamState.PUBLISHING
    wire.client.delete_stream(1)
    wire.run()
    assert wire.server.stream_state(1) is wire.client.stream_state(1) is StreamState.DELETED
