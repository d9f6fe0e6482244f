"""How large a message may be: small for all who publish nothing, whatever else they were granted."""

from collections.abc import Callable

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import MediaReceived, MessageIgnored, PublishEnded
from penstock.protocol.message import Message
from tests.support.scripted_client import ScriptedClient

LARGE_VIDEO = Message(9, 0, 1, b"\x27\x01" + bytes(1_000_000), 6)
LARGEST_OF_A_STRANGER = Message(99, 0, 1, bytes(65536), 6)


def refused(client: ScriptedClient) -> None:
    with pytest.raises(ProtocolViolation, match=r"message of 1000002 bytes .* at most 65536 are taken now"):
        client.say(LARGE_VIDEO)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda client: client.events(),
        lambda client: client.connected(),
        lambda client: client.with_stream(),
        lambda client: client.playing(),
    ],
    ids=["before connect", "connected", "with a stream", "playing"],
)
def test_who_publishes_nothing_sends_small_messages(prepare: Callable[[ScriptedClient], object]) -> None:
    client = ScriptedClient()
    prepare(client)
    assert [type(event) for event in client.say(LARGEST_OF_A_STRANGER)] == [MessageIgnored]
    refused(client)


def test_who_publishes_sends_large_ones() -> None:
    assert ScriptedClient().publishing().say(LARGE_VIDEO) == [MediaReceived(9, 1, 0, LARGE_VIDEO.payload)]


def test_a_refused_publish_changes_nothing() -> None:
    client = ScriptedClient().with_stream()
    client.grants = False
    client.call("publish", 3.0, None, "test", "live", stream_id=1)
    client.server.reject_publish(1, "no")
    refused(client)


@pytest.mark.parametrize(
    "end",
    [
        lambda client: client.call("closeStream", 0.0, None, stream_id=1),
        lambda client: client.call("deleteStream", 0.0, None, 1.0),
        lambda client: client.call("FCUnpublish", 0.0, None, "test"),
        lambda client: client.call("play", 0.0, None, "other", stream_id=1),
    ],
    ids=["closeStream", "deleteStream", "FCUnpublish", "play"],
)
def test_messages_are_small_again_when_the_publication_has_ended(end: Callable[[ScriptedClient], object]) -> None:
    client = ScriptedClient().publishing()
    end(client)
    refused(client)


def test_the_last_publication_counts() -> None:
    client = ScriptedClient().publishing()
    client.call("createStream", 4.0, None)
    client.call("publish", 5.0, None, "second", "live", stream_id=2)
    assert [type(event) for event in client.call("deleteStream", 0.0, None, 1.0)] == [PublishEnded]
    second = LARGE_VIDEO._replace(stream_id=2)
    assert client.say(second) == [MediaReceived(9, 2, 0, second.payload)]
    client.call("deleteStream", 0.0, None, 2.0)
    refused(client)


def test_a_publication_that_we_ended_is_ignored_and_no_violation_until_its_client_ends_it_too() -> None:
    client = ScriptedClient().publishing()
    client.server.end_publish(1, "Another publisher has taken over.")
    assert [type(event) for event in client.say(LARGE_VIDEO)] == [MessageIgnored]
    client.call("closeStream", 0.0, None, stream_id=1)
    refused(client)


def test_both_sizes_are_settings() -> None:
    client = ScriptedClient(ConnectionSettings(max_message_bytes=3000, max_message_bytes_unpublished=2000)).publishing()
    assert len(client.say(Message(9, 0, 1, bytes(3000), 6))) == 1
    with pytest.raises(ProtocolViolation, match="at most 3000 are taken now"):
        client.say(Message(9, 0, 1, bytes(3001), 6))
