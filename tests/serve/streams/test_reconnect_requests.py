"""A server that drains asks those who can to come back, and nobody else."""

from penstock.serve.connections.rtmp_connection import RtmpConnection
from tests.serve.fake_peer import HELLO, FakePeer
from tests.serve.streams.stage import Stage
from tests.support.hostile_clients import command, connect_command

REQUEST = "NetConnection.Connect.ReconnectRequest"


def connected(on: Stage, caps_ex: float | None) -> FakePeer:
    peer = on.peer()
    peer.say(HELLO)
    peer.say(connect_command() if caps_ex is None else command("connect", 1.0, {"app": "live", "capsEx": caps_ex}))
    return peer


def heard(peer: FakePeer) -> bool:
    return REQUEST.encode() in bytes(peer.transport.output)


def test_those_who_announced_it_are_asked_and_served_on() -> None:
    on = Stage()
    able, unable, silent = connected(on, 3.0), connected(on, 2.0), connected(on, None)
    early = on.peer()
    for connection in list(on.broker.connections.values()):
        on.broker.ask_to_reconnect(connection)
    on.loop.settle()
    assert [heard(peer) for peer in (able, unable, silent, early)] == [True, False, False, False]
    assert isinstance(able.connection, RtmpConnection)
    assert not able.connection.is_closed
