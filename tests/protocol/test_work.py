"""What one call of `next_event` may cost, in units of work: bounded whatever the peer sends, and never lost."""

import pytest

from penstock.amf import AmfValue, write_amf0_values
from penstock.errors import ProtocolViolation
from penstock.protocol.chunk_writer import write_standalone
from penstock.protocol.events import Event, MediaReceived, PublishEnded, PublishRequested
from penstock.protocol.message import Message
from penstock.protocol.session import Session
from penstock.protocol.work import WORK_PER_CALL
from tests.support.scripted_client import ScriptedClient
from tests.support.session_runs import events_of

PING = bytes.fromhex("02 000000 000006 04 00000000 0006 00000001")
BUFFER_EMPTY = bytes.fromhex("02 000000 000006 04 00000000 001F 00000001")


def interleaved(messages: int, payload_bytes: int) -> bytes:
    """So many messages at once, each cut into chunks of one byte."""
    heads = b"".join(
        bytes([3 + number]) + bytes(3) + payload_bytes.to_bytes(3, "big") + b"\x63" + bytes(5)
        for number in range(messages)
    )
    row = b"".join(bytes([0xC3 + number, 0]) for number in range(messages))
    return bytes.fromhex("02 000000 000004 01 00000000 00000001") + heads + row * (payload_bytes - 2)


def command(*values: AmfValue) -> bytes:
    return write_standalone(Message(20, 0, 0, write_amf0_values(*values), 3), 128)


def calls(session: Session) -> list[tuple[Event | None, int]]:
    """Each call of `next_event` until the session needs bytes: what came, and the units it took."""
    found = []
    while True:
        before = session.work_done
        event = session.next_event()
        found.append((event, session.work_done - before))
        session.data_to_send()
        if event is None and not session.is_unfinished:
            return found


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(interleaved(8, 1000), id="chunks of one byte"),
        pytest.param(PING * 2000, id="pings"),
        pytest.param(BUFFER_EMPTY * 2000, id="user control without effect"),
        pytest.param(bytes.fromhex("02 000000 000004 02 00000000 00000003") * 2000, id="aborts"),
        pytest.param(bytes.fromhex("02 000000 000004 01 00000000 00001000") * 2000, id="chunk sizes"),
        pytest.param(command("x", 0.0) * 2000, id="unknown commands"),
        pytest.param(command("x", 7.0) * 2000, id="unknown commands that want an answer"),
        pytest.param(command("FCSubscribe", 7.0, None, "name") * 2000, id="FCSubscribe"),
    ],
)
def test_a_flood_that_yields_no_event_is_cut_into_calls(flood: bytes) -> None:
    client = ScriptedClient().connected()
    client.server.receive_data(flood)
    found = calls(client.server)
    assert [event for event, _ in found if event is not None] == []
    assert len(found) > 7
    assert max(units for _, units in found) <= WORK_PER_CALL + 4


def test_skipped_parts_of_an_aggregate_are_cut_into_calls() -> None:
    client = ScriptedClient().publishing()
    client.say(Message(1, 0, 0, bytes.fromhex("00100000"), 2))
    parts = bytes.fromhex("14 000000 000000 00 000000 0000000B") * 2000
    client.server.receive_data(bytes.fromhex("04 000000 007530 16 01000000") + parts)
    assert client.server.next_event() is None
    assert client.server.is_unfinished
    assert client.server.buffered_bytes == len(parts)
    found = calls(client.server)
    assert [type(event).__name__ for event, _ in found if event is not None] == ["MessageIgnored"]
    assert max(units for _, units in found) == WORK_PER_CALL
    assert sum(units for _, units in found) >= 2000 - WORK_PER_CALL
    assert client.server.buffered_bytes == 0


def test_a_media_message_that_is_whole_is_one_unit_and_one_event() -> None:
    client = ScriptedClient().publishing()
    client.say(Message(9, 0, 1, b"first", 6))
    client.server.receive_data(bytes.fromhex("46 000028 000005 09") + b"video" + bytes(8))
    before = client.server.work_done
    assert client.server.next_event() == MediaReceived(9, 1, 40, b"video")
    assert client.server.work_done == before + 1


def test_a_message_in_two_halves_is_a_header_and_two_bodies() -> None:
    client = ScriptedClient().publishing()
    before = client.server.work_done
    client.server.receive_data(bytes.fromhex("06 000028 000005 09 01000000") + b"vi")
    assert client.server.next_event() is None
    assert not client.server.is_unfinished
    client.server.receive_data(b"deo")
    assert client.server.next_event() == MediaReceived(9, 1, 40, b"video")
    assert client.server.work_done == before + 3


def test_a_session_that_needs_bytes_is_finished_and_works_no_more() -> None:
    client = ScriptedClient().connected()
    before = client.server.work_done
    assert client.server.next_event() is None
    assert not client.server.is_unfinished
    assert client.server.work_done == before


def test_a_second_publish_on_a_stream_is_unfinished_between_its_two_events() -> None:
    client = ScriptedClient().publishing()
    client.grants = False
    client.server.receive_data(
        write_standalone(Message(20, 0, 1, write_amf0_values("publish", 4.0, None, "other", "live"), 3), 128)
    )
    assert isinstance(client.server.next_event(), PublishEnded)
    assert client.server.is_held
    assert client.server.is_unfinished
    assert isinstance(client.server.next_event(), PublishRequested)
    assert not client.server.is_unfinished
    client.server.accept_publish(1)
    assert client.server.is_unfinished
    assert client.server.next_event() is None
    assert not client.server.is_unfinished


def test_events_of_a_lost_connection_are_unfinished_business() -> None:
    client = ScriptedClient().publishing()
    client.server.receive_eof()
    assert client.server.is_unfinished
    assert [type(event) for event in events_of(client.server)] == [PublishEnded]
    assert not client.server.is_unfinished


def test_the_values_of_a_command_are_units_beside_its_message() -> None:
    client = ScriptedClient().connected()
    client.say(Message(99, 0, 0, b"", 3))
    before = client.server.work_done
    # The second finds its chunk stream known, so that its message is one unit; an object is a value like its members.
    client.server.receive_data(command("x", 0.0, {"a": 1.0, "b": 2.0}))
    assert client.server.next_event() is None
    assert client.server.work_done == before + 1 + 5


def test_a_command_of_too_many_values_is_a_violation() -> None:
    client = ScriptedClient().connected()
    client.call("x", 0.0, *[None] * 998)
    with pytest.raises(ProtocolViolation, match=r"amf0: more than 1000 items .*connected"):
        client.call("x", 0.0, *[None] * 999)


def test_a_call_does_no_more_than_its_budget_and_one_command() -> None:
    client = ScriptedClient().connected()
    client.server.receive_data(command("x", 0.0, *[None] * 998) * 20)
    found = calls(client.server)
    assert len(found) == 21
    assert max(units for _, units in found) <= WORK_PER_CALL + 1000
