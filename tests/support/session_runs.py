"""Sessions driven without a network: fed with pieces of bytes, granted everything, watched."""

from collections.abc import Callable, Iterable, Iterator

from penstock.protocol.client_session import ClientSession
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import (
    Connected,
    ConnectRequested,
    Event,
    HandshakeCompleted,
    PlayRequested,
    PublishRequested,
    StreamCreated,
)
from penstock.protocol.server_session import ServerSession
from penstock.protocol.session import Session
from tests.support.independent_rtmp import HANDSHAKE_BYTES, OracleMessage, read_messages

NONCE = bytes(1528)


def new_server(settings: ConnectionSettings | None = None) -> ServerSession:
    return ServerSession(nonce=NONCE, time_ms=0, settings=settings)


def new_client(settings: ConnectionSettings | None = None, *, digest: bool = False) -> ClientSession:
    return ClientSession(nonce=NONCE, time_ms=0, settings=settings, digest=digest)


def grant(server: ServerSession, event: Event) -> None:
    """Say yes to whatever is asked."""
    match event:
        case ConnectRequested():
            server.accept_connect()
        case PublishRequested(stream_id=stream_id):
            server.accept_publish(stream_id)
        case PlayRequested(stream_id=stream_id, is_reset=is_reset):
            server.accept_play(stream_id, is_reset=is_reset)
        case _:
            pass


def events_of(session: Session, send: Callable[[bytes], object] = lambda data: None) -> Iterator[Event]:
    """The events that are there, each handed out before the next is asked for.

    Goes on where the session gave way; what it has to say is sent then, as it may wait for just that.
    """
    while (event := session.next_event()) is not None or session.is_unfinished:
        if event is None:
            send(session.data_to_send())
        else:
            yield event


def pull(server: ServerSession, decide: Callable[[ServerSession, Event], None] = grant) -> list[Event]:
    """All events that are there, each decided before the next is asked for."""
    events = []
    for event in events_of(server):
        events.append(event)
        decide(server, event)
    return events


def serve(pieces: Iterable[bytes], server: ServerSession | None = None) -> list[Event]:
    """The events of a server that is fed the pieces and grants everything."""
    server = server or new_server()
    events: list[Event] = []
    for piece in pieces:
        server.receive_data(piece)
        events += pull(server)
    return events


def watch(pieces: Iterable[bytes], name: str, *, publishes: bool, announces: bool) -> list[Event]:
    """The events of a client that is fed a server's bytes while it connects, then publishes or plays."""
    client = new_client()
    events: list[Event] = []
    for piece in pieces:
        client.receive_data(piece)
        for event in events_of(client):
            events.append(event)
            match event:
                case HandshakeCompleted():
                    client.connect("live", "rtmp://127.0.0.1/live")
                case Connected():
                    if announces:
                        client.announce_publish(name)
                    client.create_stream()
                case StreamCreated(stream_id) if publishes:
                    client.publish(stream_id, name)
                case StreamCreated(stream_id):
                    client.play(stream_id, name)
                case _:
                    pass
    return events


def messages_in(sent: bytes) -> list[OracleMessage]:
    """What a session sent after its handshake, as the independent reader sees it."""
    return read_messages(b"\x03" + bytes(HANDSHAKE_BYTES - 1) + sent)
