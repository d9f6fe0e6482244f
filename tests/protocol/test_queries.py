"""Queries of streams: kept as they came up to a bound, refused above it before anybody looks at them."""

import pytest

from penstock.protocol.events import PlayRequested, PublishRequested
from tests.support.scripted_client import ScriptedClient

REFUSED = {"publish": "NetStream.Publish.BadName", "play": "NetStream.Play.StreamNotFound"}


@pytest.mark.parametrize("command", ["publish", "play"])
def test_a_query_of_4096_bytes_is_in_the_event_as_it_came(command: str) -> None:
    client = ScriptedClient().with_stream()
    (event,) = client.call(command, 3.0, None, "test?" + "é%" * 1365 + "x", stream_id=1)
    assert isinstance(event, PublishRequested | PlayRequested)
    assert (event.name, event.query) == ("test", "é%" * 1365 + "x")


@pytest.mark.parametrize("command", ["publish", "play"])
def test_a_longer_one_is_refused_with_a_status(command: str) -> None:
    client = ScriptedClient().with_stream()
    assert client.call(command, 3.0, None, "test?" + "q" * 4097, stream_id=1) == []
    ((stream_id, status),) = client.heard_commands()
    assert stream_id == 1
    assert status[3] == {
        "level": "error",
        "code": REFUSED[command],
        "description": "A stream query may have 4096 bytes, not 4097.",
        "details": "",
    }
    (event,) = client.call(command, 3.0, None, "test", stream_id=1)
    assert isinstance(event, PublishRequested | PlayRequested)


def test_a_publishing_type_is_cut() -> None:
    (event,) = ScriptedClient().with_stream().call("publish", 3.0, None, "test", "live" * 5000, stream_id=1)
    assert isinstance(event, PublishRequested)
    assert event.publishing_type == "live" * 256
