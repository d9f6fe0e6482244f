"""Answers are bounded while they are made: by what is fetched, and by what they repeat of a request."""

import pytest

from penstock.amf import AmfValue, write_amf0_values
from penstock.protocol.chunk_writer import write_standalone
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import BufferLengthSet, MediaReceived
from penstock.protocol.message import Message
from penstock.protocol.names import MAX_STREAM_NAME_BYTES
from tests.support.scripted_client import ScriptedClient
from tests.support.session_runs import events_of

PING = bytes.fromhex("02 000000 000006 04 00000000 0006 00000001")


def command(*values: AmfValue) -> bytes:
    return write_standalone(Message(20, 0, 0, write_amf0_values(*values), 3), 128)


def test_reading_stops_when_so_many_bytes_wait_and_goes_on_when_they_are_fetched() -> None:
    client = ScriptedClient(ConnectionSettings(max_pending_reply_bytes=200)).connected()
    server = client.server
    server.receive_data(command("FCSubscribe", 7.0, None, "name") * 3)
    assert server.next_event() is None
    # A little more than the bound at most: the answers to one command.
    assert 200 <= server.pending_reply_bytes < 400
    work_done = server.work_done
    assert server.next_event() is None
    assert server.is_unfinished
    assert server.work_done == work_done
    assert len(server.data_to_send()) >= 200
    assert server.pending_reply_bytes == 0
    assert server.next_event() is None
    assert server.pending_reply_bytes > 0
    assert list(events_of(server)) == []
    assert not server.is_unfinished


def test_nothing_is_lost_or_out_of_order_when_reading_stops_often() -> None:
    client = ScriptedClient(ConnectionSettings(max_pending_reply_bytes=1)).connected()
    for number in range(5):
        client.server.receive_data(command("x", float(number + 1)))
    client.server.receive_data(bytes.fromhex("02 000000 00000A 04 00000000 0003 00000001 00000BB8"))
    assert client.events() == [BufferLengthSet(1, 3000)]
    assert [values[:2] for _, values in client.heard_commands()] == [["_result", float(n)] for n in range(1, 6)]


def test_media_waits_for_the_answers_too() -> None:
    client = ScriptedClient(ConnectionSettings(max_pending_reply_bytes=10)).publishing()
    client.server.receive_data(PING + bytes.fromhex("06 000000 000001 09 01000000 AA"))
    assert client.server.next_event() is None
    client.server.data_to_send()
    assert client.server.next_event() == MediaReceived(9, 1, 0, b"\xaa")


def test_queued_bytes_are_counted() -> None:
    client = ScriptedClient()
    assert client.server.pending_reply_bytes == 0
    client.server.send_ping(1)
    client.server.send_ping(1)
    waiting = client.server.pending_reply_bytes
    assert waiting == len(client.server.data_to_send()) > 0


@pytest.mark.parametrize("name", ["FCPublish", "FCSubscribe", "FCUnpublish", "releaseStream", "FCUnsubscribe"])
def test_an_answer_repeats_no_more_of_a_name_than_a_stream_may_have(name: str) -> None:
    client = ScriptedClient().connected()
    client.call(name, 3.0, None, "n" * 20_000)
    said = b"".join(message.payload for message in client.heard())
    assert said.count(b"n" * MAX_STREAM_NAME_BYTES) <= 1
    assert len(said) < MAX_STREAM_NAME_BYTES + 300


def test_a_name_is_cut_by_the_byte_and_sent_as_it_came() -> None:
    client = ScriptedClient().connected()
    client.call("FCPublish", 3.0, None, "é" * 1000 + "x")
    said = b"".join(message.payload for message in client.heard())
    assert b"to stream " + "é".encode() * 512 + b"." in said
