"""Inputs that once broke a reader, as literal bytes, found by `python -m fuzz` or while its targets were made."""

import time

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocol.chunk_reader import ChunkReader
from penstock.protocol.events import ConnectRequested, Event, MessageIgnored, PlayRequested, PublishRequested
from penstock.protocol.handshake import NONCE_BYTES
from penstock.protocol.message import Message
from penstock.protocol.names import MAX_STREAM_NAME_BYTES
from penstock.protocol.server_session import ServerSession
from tests.support.cuts import all_cuts
from tests.support.session_runs import events_of

HANDSHAKE = b"\x03" + bytes(2 * 1536)
CONNECT = bytes.fromhex("03 000000 000014 14 00000000  0200 07 636f6e6e656374  003ff0000000000000  05")
CREATE_STREAM = bytes.fromhex("03 000000 000019 14 00000000  02000c 63726561746553747265616d  004000000000000000  05")


def command_on_stream_1(payload: bytes) -> bytes:
    """One message on chunk stream 8, in a chunk of its own length."""
    return bytes.fromhex("08 000000") + len(payload).to_bytes(3, "big") + bytes.fromhex("14 01000000") + payload


def connected_session() -> ServerSession:
    session = ServerSession(nonce=bytes(NONCE_BYTES), time_ms=0)
    session.receive_data(HANDSHAKE + CONNECT + CREATE_STREAM)
    granted(session)
    session.data_to_send()
    return session


def granted(session: ServerSession) -> list[Event]:
    """The events that are there, of a session that is granted a connect and nothing else."""
    events: list[Event] = []
    for event in events_of(session):
        if isinstance(event, ConnectRequested):
            session.accept_connect()
        events.append(event)
    return events


def test_a_message_right_behind_an_aggregate_does_not_wait_for_more_bytes() -> None:
    session = connected_session()
    aggregate = bytes.fromhex("04 000000 000012 16 01000000  08 000003 000010 00 000000 af0111 0000000e")
    unknown = bytes.fromhex("04 000000 000001 63 01000000  00")
    session.receive_data(aggregate + unknown)
    assert [event.type_id for event in granted(session) if isinstance(event, MessageIgnored)] == [22, 0x63]


@pytest.mark.parametrize("name", ["publish", "play"])
def test_a_stream_name_without_bound_is_refused_and_not_said_again(name: str) -> None:
    session = connected_session()
    set_chunk_size = bytes.fromhex("02 000000 000004 01 00000000  00010000")
    long_name = b"n" * (MAX_STREAM_NAME_BYTES + 1)
    head = b"\x02" + len(name).to_bytes(2, "big") + name.encode() + bytes(9) + b"\x05"
    session.receive_data(
        set_chunk_size + command_on_stream_1(head + b"\x02" + len(long_name).to_bytes(2, "big") + long_name)
    )
    assert not [event for event in granted(session) if isinstance(event, PublishRequested | PlayRequested)]
    refusal = session.data_to_send()
    assert b"A stream name may have 1024 bytes, not 1025." in refusal
    session.receive_data(command_on_stream_1(b"\x02\x00\x05pause") * 100)
    granted(session)
    assert b"nnn" not in refusal + session.data_to_send()


@pytest.mark.parametrize("name", ["publish", "play"])
def test_a_stream_name_within_the_bound_is_asked_for(name: str) -> None:
    session = connected_session()
    set_chunk_size = bytes.fromhex("02 000000 000004 01 00000000  00010000")
    head = b"\x02" + len(name).to_bytes(2, "big") + name.encode() + bytes(9) + b"\x05"
    session.receive_data(set_chunk_size + command_on_stream_1(head + b"\x02\x04\x00" + b"n" * 1024))
    (event,) = granted(session)
    assert isinstance(event, PublishRequested | PlayRequested)
    assert event.name == "n" * 1024


def test_two_messages_interleaved_byte_by_byte_take_time_in_proportion() -> None:
    reader = ChunkReader()
    reader.chunk_size = 1
    opened = bytes.fromhex("03 000000 ffffff 09 01000000 00") + bytes.fromhex("04 000000 ffffff 09 01000000 00")
    started_at = time.process_time()
    reader.receive_data(opened + b"\xc3\x00\xc4\x00" * 50_000)
    assert reader.next_message() is None
    # A third of a second; looking at all that was here for each chunk took nine.
    assert time.process_time() - started_at < 3


def test_a_guess_about_extended_timestamps_does_not_depend_on_cuts() -> None:
    # A peer that leaves the extended timestamp out. The second chunk begins with four zeros, and after it only two
    # bytes are sure to come, too few to tell; what is guessed is the same whether more has come or not.
    video = bytes.fromhex("03 ffffff 000012 09 01000000 01000000  a0a1a2a3a4a5a6a7  c3 0000000004050607  c3 b0b1")
    stream = video + bytes.fromhex("04 000000 000001 08 01000000 ff") * 3
    results = {name: read_messages(pieces) for name, pieces in all_cuts(stream)}
    assert results == dict.fromkeys(results, results["whole"])


def read_messages(pieces: list[bytes]) -> tuple[list[Message], str]:
    reader = ChunkReader()
    reader.chunk_size = 8
    messages: list[Message] = []
    try:
        for piece in pieces:
            reader.receive_data(piece)
            while (message := reader.next_message()) is not None:
                messages.append(message)
    except ProtocolViolation as fault:
        return messages, str(fault)
    return messages, ""
