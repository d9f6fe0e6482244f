"""Which servers a pull goes through, as connect tells it."""

import pytest

from penstock.amf import AmfValue
from penstock.protocol.events import ConnectRequested
from penstock.protocol.via import MOST, PROPERTY, read_via, write_via
from tests.support.session_runs import new_server


def test_what_is_written_is_read() -> None:
    assert write_via(("a", "b-1.x_Y")) == {"penstockVia": "a,b-1.x_Y"}
    assert read_via("a,b-1.x_Y") == ("a", "b-1.x_Y")


@pytest.mark.parametrize("value", [None, 5.0, True, "", "a,,b", "a b", "é", "a" * 65, {"a": 1.0}])
def test_what_is_no_list_of_ids_is_ignored(value: AmfValue) -> None:
    assert read_via(value) == ()


def test_of_too_many_only_so_many_are_kept_that_it_can_be_told() -> None:
    assert len(read_via(",".join("ab" for _ in range(500)))) == MOST + 1


def test_a_connect_tells_the_servers_that_ask() -> None:
    from tests.support.hostile_clients import GREETING, command

    session = new_server()
    connect = command("connect", 1.0, {"app": "live", PROPERTY: "one,two"})
    session.receive_data(GREETING + bytes(1536) + connect, 0.0)
    events = []
    while (event := session.next_event()) is not None:
        events.append(event)
    assert [event.via for event in events if isinstance(event, ConnectRequested)] == [("one", "two")]
