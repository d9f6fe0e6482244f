"""What happens below the sessions: acknowledgements, windows, pings, chunk sizes, tracing."""

import pytest

from penstock.protocol.chunk_reader import ChunkLimits
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import Acknowledged, MediaReceived, PongReceived
from penstock.protocol.message import Message
from penstock.protocol.server_session import ServerSession
from penstock.protocol.session import Session
from tests.support.scripted_client import ScriptedClient
from tests.support.session_runs import events_of


def control(type_id: int, payload: str) -> Message:
    return Message(type_id, 0, 0, bytes.fromhex(payload), 2)


def acknowledgements(client: ScriptedClient) -> list[int]:
    return [int.from_bytes(m.payload, "big") for m in client.heard() if m.type_id == 3]


class TestAcknowledgements:
    def test_one_is_sent_at_half_the_window_the_peer_announced(self) -> None:
        client = ScriptedClient().publishing()
        client.say(control(5, "00001000"))
        client.say(Message(9, 0, 1, b"", 6))
        assert acknowledgements(client) == [client.server.received_bytes]
        client.say(Message(9, 0, 1, bytes(2000), 6))
        assert acknowledgements(client) == []
        client.say(Message(9, 0, 1, bytes(40), 6))
        assert acknowledgements(client) == [client.server.received_bytes]

    def test_our_own_peer_bandwidth_is_the_window_until_the_peer_says_one(self) -> None:
        client = ScriptedClient(ConnectionSettings(peer_bandwidth_bytes=20_000)).publishing()
        client.say(Message(9, 0, 1, bytes(4000), 6))
        assert acknowledgements(client) == []
        client.say(Message(9, 0, 1, bytes(4000), 6))
        assert acknowledgements(client) == [client.server.received_bytes]

    def test_the_count_is_32_bits_wide(self) -> None:
        client = ScriptedClient().publishing()
        client.server._connection._received_bytes = 0xFFFFFF00  # nobody waits for four gigabytes
        client.server._connection._acknowledged_bytes = 0xFFFFFF00
        client.say(control(5, "00000400"))
        client.say(Message(9, 0, 1, bytes(2000), 6))
        received = client.server.received_bytes
        assert received > 0xFFFFFFFF
        assert acknowledgements(client)[-1] == received & 0xFFFFFFFF

    def test_the_peers_own_are_told(self) -> None:
        assert ScriptedClient().playing().say(control(3, "000F4240")) == [Acknowledged(1_000_000)]


class TestPeerBandwidth:
    def test_it_is_answered_by_our_window_when_that_changes(self) -> None:
        client = ScriptedClient().connected()
        client.say(control(6, "00100000 02"))
        assert [(m.type_id, m.payload.hex()) for m in client.heard()] == [(5, "00100000")]
        client.say(control(6, "00100000 00"))
        assert client.heard() == []

    def test_a_soft_limit_only_ever_narrows(self) -> None:
        client = ScriptedClient().connected()
        client.say(control(6, "00200000 01"))
        client.say(control(6, "00400000 01"))
        assert [m.payload.hex() for m in client.heard()] == ["00200000"]


class TestPings:
    def test_a_ping_is_answered_with_its_own_time(self) -> None:
        client = ScriptedClient()
        assert client.say(control(4, "0006 0001E240"))[1:] == []
        assert [(m.type_id, m.payload.hex()) for m in client.heard()] == [(4, "00070001e240")]

    def test_our_ping_comes_back_as_an_event(self) -> None:
        client = ScriptedClient().playing()
        client.server.send_ping(0x1_0001_E240)
        assert [m.payload.hex() for m in client.heard()] == ["00060001e240"]
        assert client.say(control(4, "0007 0001E240")) == [PongReceived(123456)]

    @pytest.mark.parametrize("payload", ["0000 00000001", "001A", "001B 00000000", "0020 00000001", "FFFF"])
    def test_other_events_are_ignored_by_a_server(self, payload: str) -> None:
        client = ScriptedClient().connected()
        assert client.say(control(4, payload)) == []
        assert client.heard() == []


class TestReading:
    def test_an_abort_drops_a_half_message(self) -> None:
        client = ScriptedClient().publishing()
        half = bytes.fromhex("06 000064 00012C 09 01000000") + b"x" * 128
        client.server.receive_data(half)
        assert client.events() == []
        assert client.server.buffered_bytes == 128
        assert client.say(control(2, "00000006")) == []
        assert client.server.buffered_bytes == 0
        assert client.say(Message(9, 5, 1, b"v", 6)) == [MediaReceived(9, 1, 5, b"v")]

    def test_set_chunk_size_may_come_before_connect(self) -> None:
        # OBS does it.
        client = ScriptedClient()
        client.say(control(1, "00001000"))
        payload = bytes.fromhex("03 000000 0003E8 63 00000000") + bytes(1000)
        client.server.receive_data(payload)
        (event,) = client.events()
        assert event.type_id == 99  # type: ignore[union-attr]

    def test_limits_come_from_the_settings(self) -> None:
        settings = ConnectionSettings(chunk_limits=ChunkLimits(max_buffered_bytes=5000))
        client = ScriptedClient(settings).publishing()
        client.server.receive_data(bytes.fromhex("06 000064 FFFFFF 09 01000000") + bytes(128))
        assert client.events() == []
        assert client.server.buffered_bytes == 128


def test_a_trace_sees_every_message_in_both_directions() -> None:
    seen: list[tuple[str, int]] = []
    server = ServerSession(nonce=bytes(1528), time_ms=0, trace=lambda way, message: seen.append((way, message.type_id)))
    server.receive_data(
        b"\x03" + bytes(1536) + bytes(1536) + bytes.fromhex("02 000000 000006 04 00000000 0006 00000001")
    )
    assert list(events_of(server))
    assert seen == [("received", 4), ("sent", 4)]


def test_a_session_is_of_one_role() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Session(None, ConnectionSettings(), None)  # type: ignore[abstract, arg-type]
