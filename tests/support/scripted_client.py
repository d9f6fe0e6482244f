"""A client made of literal messages: says exactly what a test tells it to, in any order, to a server session."""

from penstock.amf import AmfValue, write_amf0_values
from penstock.protocol.chunk_writer import write_standalone
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import Event
from penstock.protocol.message import Message
from penstock.protocol.server_session import ServerSession
from tests.support.independent_rtmp import OracleMessage, command_values
from tests.support.session_runs import events_of, grant, messages_in, new_server

CONNECT: tuple[AmfValue, ...] = ("connect", 1.0, {"app": "live", "tcUrl": "rtmp://127.0.0.1/live"})


class ScriptedClient:
    """Talks to a server session and keeps what it answers."""

    def __init__(self, settings: ConnectionSettings | None = None) -> None:
        self.server: ServerSession = new_server(settings)
        self.answers: list[OracleMessage] = []
        self.grants = True
        self._sent = b""
        self.server.receive_data(b"\x03" + bytes(1536) + bytes(1536))
        self.server.data_to_send()

    def say(self, message: Message) -> list[Event]:
        """Send one message and give back the events it led to."""
        self.server.receive_data(write_standalone(message, 128))
        return self.events()

    def events(self) -> list[Event]:
        """Pull the events that are there; the answers to them are kept."""
        found = []
        for event in events_of(self.server, self._keep):
            found.append(event)
            if self.grants:
                grant(self.server, event)
        return found

    def call(self, *values: AmfValue, stream_id: int = 0) -> list[Event]:
        """Send a command."""
        return self.say(Message(20, 0, stream_id, write_amf0_values(*values), 3))

    def connected(self, **properties: AmfValue) -> "ScriptedClient":
        """Past an accepted connect, with the answers so far forgotten."""
        self.call("connect", 1.0, {"app": "live", **properties})
        self.heard()
        return self

    def with_stream(self) -> "ScriptedClient":
        """Past connect and createStream: message stream 1 is there."""
        self.connected().call("createStream", 2.0, None)
        self.heard()
        return self

    def publishing(self, name: str = "test") -> "ScriptedClient":
        """Past an accepted publish on message stream 1."""
        self.with_stream().call("publish", 3.0, None, name, "live", stream_id=1)
        self.heard()
        return self

    def playing(self, name: str = "test") -> "ScriptedClient":
        """Past an accepted play on message stream 1."""
        self.with_stream().call("play", 3.0, None, name, stream_id=1)
        self.heard()
        return self

    def heard(self) -> list[OracleMessage]:
        """What the server sent since the last time."""
        self._keep(self.server.data_to_send())
        messages = messages_in(self._sent)
        new, self.answers = messages[len(self.answers) :], messages
        return new

    def _keep(self, data: bytes) -> None:
        self._sent += data

    def heard_commands(self) -> list[tuple[int, list[object]]]:
        """The commands among it: message stream id and values."""
        return [(m.stream_id, command_values(m)) for m in self.heard() if m.type_id == 20]

    def heard_codes(self) -> list[str]:
        """What it says in short: status codes, names of other commands, and user control events as numbers."""
        found = []
        for message in self.heard():
            if message.type_id == 20:
                values = command_values(message)
                status = values[3] if len(values) > 3 else None
                found.append(str(status["code"]) if isinstance(status, dict) and "code" in status else str(values[0]))
            elif message.type_id == 4:
                found.append(f"event {message.payload[1]}")
            else:
                found.append(f"type {message.type_id}")
        return found
