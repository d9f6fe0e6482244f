"""The states of a connection and of its message streams, and every way from one to another.

One table for both roles: to a server, "requested" means that its shell has yet to decide; to a client, that the
server has yet to answer. The drawing in the documentation is made from these tables.
"""

import enum
from collections.abc import Sequence


class ConnectionState(enum.Enum):
    """Where a connection stands. The values are for people: logs and error messages."""

    HANDSHAKING = "handshaking"
    OPEN = "open, before connect"
    CONNECT_REQUESTED = "connect requested"
    CONNECTED = "connected"
    CLOSED = "closed"


class ConnectionSignal(enum.Enum):
    """What moves a connection."""

    HANDSHAKE_DONE = "handshake done"
    CONNECT = "connect"
    ACCEPT = "accept"
    REJECT = "reject"
    CLOSE = "close"


class StreamState(enum.Enum):
    """What a message stream does."""

    IDLE = "idle"
    PUBLISH_REQUESTED = "publish requested"
    PUBLISHING = "publishing"
    PLAY_REQUESTED = "play requested"
    PLAYING = "playing"
    PAUSED = "paused"
    DELETED = "deleted"


class StreamSignal(enum.Enum):
    """What moves a message stream."""

    PUBLISH = "publish"
    PLAY = "play"
    ACCEPT = "accept"
    REJECT = "reject"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    STOP = "stop"
    DELETE = "delete"


CONNECTION_TRANSITIONS: dict[tuple[ConnectionState, ConnectionSignal], ConnectionState] = {
    (ConnectionState.HANDSHAKING, ConnectionSignal.HANDSHAKE_DONE): ConnectionState.OPEN,
    (ConnectionState.OPEN, ConnectionSignal.CONNECT): ConnectionState.CONNECT_REQUESTED,
    (ConnectionState.CONNECT_REQUESTED, ConnectionSignal.ACCEPT): ConnectionState.CONNECTED,
    (ConnectionState.CONNECT_REQUESTED, ConnectionSignal.REJECT): ConnectionState.CLOSED,
    (ConnectionState.HANDSHAKING, ConnectionSignal.CLOSE): ConnectionState.CLOSED,
    (ConnectionState.OPEN, ConnectionSignal.CLOSE): ConnectionState.CLOSED,
    (ConnectionState.CONNECT_REQUESTED, ConnectionSignal.CLOSE): ConnectionState.CLOSED,
    (ConnectionState.CONNECTED, ConnectionSignal.CLOSE): ConnectionState.CLOSED,
}

STREAM_TRANSITIONS: dict[tuple[StreamState, StreamSignal], StreamState] = {
    (StreamState.IDLE, StreamSignal.PUBLISH): StreamState.PUBLISH_REQUESTED,
    (StreamState.PUBLISH_REQUESTED, StreamSignal.ACCEPT): StreamState.PUBLISHING,
    (StreamState.PUBLISH_REQUESTED, StreamSignal.REJECT): StreamState.IDLE,
    (StreamState.PUBLISH_REQUESTED, StreamSignal.STOP): StreamState.IDLE,
    (StreamState.PUBLISHING, StreamSignal.STOP): StreamState.IDLE,
    (StreamState.IDLE, StreamSignal.PLAY): StreamState.PLAY_REQUESTED,
    (StreamState.PLAY_REQUESTED, StreamSignal.ACCEPT): StreamState.PLAYING,
    (StreamState.PLAY_REQUESTED, StreamSignal.REJECT): StreamState.IDLE,
    (StreamState.PLAY_REQUESTED, StreamSignal.STOP): StreamState.IDLE,
    (StreamState.PLAYING, StreamSignal.PAUSE): StreamState.PAUSED,
    (StreamState.PLAYING, StreamSignal.STOP): StreamState.IDLE,
    (StreamState.PAUSED, StreamSignal.UNPAUSE): StreamState.PLAYING,
    (StreamState.PAUSED, StreamSignal.STOP): StreamState.IDLE,
    (StreamState.IDLE, StreamSignal.DELETE): StreamState.DELETED,
}


def draw_transitions() -> str:
    """Both tables as Mermaid state diagrams, for the documentation."""
    connection = [(before, signal, after) for (before, signal), after in CONNECTION_TRANSITIONS.items()]
    stream = [(before, signal, after) for (before, signal), after in STREAM_TRANSITIONS.items()]
    return f"{_draw(connection)}\n\n{_draw(stream)}"


def _draw(transitions: Sequence[tuple[enum.Enum, enum.Enum, enum.Enum]]) -> str:
    states = dict.fromkeys(state for before, _, after in transitions for state in (before, after))
    return "\n".join(
        (
            "```mermaid",
            "stateDiagram-v2",
            *(f"    {state.name} : {state.value}" for state in states),
            f"    [*] --> {transitions[0][0].name}",
            *(f"    {before.name} --> {after.name} : {signal.value}" for before, signal, after in transitions),
            "```",
        )
    )
