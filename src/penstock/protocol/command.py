"""Every command that a server or client of ours sends or understands (RTMP 1.0, section 7.2), as values.

Knows no bytes: `command_codec` reads and writes them. The order in which commands may come is the sessions' matter.
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.amf import AmfValue


@dataclass(frozen=True, slots=True)
class Command:
    """What all commands have. The transaction id is echoed as it came: clients send any number."""

    command_name: ClassVar[str]
    transaction_id: float


@dataclass(frozen=True, slots=True)
class Connect(Command):
    """The client's first command. `properties` keeps all that it said, in its order."""

    command_name = "connect"
    properties: dict[str, AmfValue]
    arguments: tuple[AmfValue, ...] = ()


@dataclass(frozen=True, slots=True)
class _NamesStream(Command):
    stream_name: str


class ReleaseStream(_NamesStream):
    """Frees a name that an earlier publish may still hold."""

    __slots__ = ()
    command_name = "releaseStream"


class FCPublish(_NamesStream):
    """Announces a publish."""

    __slots__ = ()
    command_name = "FCPublish"


class FCUnpublish(_NamesStream):
    """Ends a publish; enough by itself."""

    __slots__ = ()
    command_name = "FCUnpublish"


class FCSubscribe(_NamesStream):
    """Announces a play."""

    __slots__ = ()
    command_name = "FCSubscribe"


class FCUnsubscribe(_NamesStream):
    """Takes an announced play back."""

    __slots__ = ()
    command_name = "FCUnsubscribe"


class GetStreamLength(_NamesStream):
    """Asks how many seconds a recording has."""

    __slots__ = ()
    command_name = "getStreamLength"


class CreateStream(Command):
    """Asks for a message stream."""

    __slots__ = ()
    command_name = "createStream"


class CheckBandwidth(Command):
    """Answers onBWDone, or opens a talk about bandwidth that nobody needs."""

    __slots__ = ()
    command_name = "_checkbw"


class CloseStream(Command):
    """Ends what a message stream does; the stream stays."""

    __slots__ = ()
    command_name = "closeStream"


@dataclass(frozen=True, slots=True)
class DeleteStream(Command):
    """Ends what a message stream does, and the stream."""

    command_name = "deleteStream"
    stream_id: int


@dataclass(frozen=True, slots=True)
class Publish(Command):
    """Asks to publish under a name, which may hold a query."""

    command_name = "publish"
    stream_name: str
    publishing_type: str = "live"


@dataclass(frozen=True, slots=True)
class Play(Command):
    """Asks for a stream. `start` is -2 (live, else recorded), -1 (live only), or a position."""

    command_name = "play"
    stream_name: str
    start: float | None = None
    duration: float | None = None
    reset: bool | None = None


@dataclass(frozen=True, slots=True)
class Play2(Command):
    """Asks for another stream in place of the one being played."""

    command_name = "play2"
    parameters: dict[str, AmfValue]


@dataclass(frozen=True, slots=True)
class _Pauses(Command):
    is_paused: bool
    position_ms: float


class Pause(_Pauses):
    """Stops or resumes a play."""

    __slots__ = ()
    command_name = "pause"


class PauseRaw(_Pauses):
    """As pause, in the form that Flash players send."""

    __slots__ = ()
    command_name = "pauseRaw"


@dataclass(frozen=True, slots=True)
class Seek(Command):
    """Asks to go on from a position."""

    command_name = "seek"
    position_ms: float


@dataclass(frozen=True, slots=True)
class _Receives(Command):
    is_wanted: bool


class ReceiveAudio(_Receives):
    """Switches a viewer's audio on or off."""

    __slots__ = ()
    command_name = "receiveAudio"


class ReceiveVideo(_Receives):
    """Switches a viewer's video on or off."""

    __slots__ = ()
    command_name = "receiveVideo"


@dataclass(frozen=True, slots=True)
class _Answers(Command):
    values: tuple[AmfValue, ...]


class Result(_Answers):
    """The good answer to the command with the same transaction id."""

    __slots__ = ()
    command_name = "_result"


class Error(_Answers):
    """The bad answer to the command with the same transaction id."""

    __slots__ = ()
    command_name = "_error"


@dataclass(frozen=True, slots=True)
class _Informs(Command):
    information: dict[str, AmfValue]


class OnStatus(_Informs):
    """What became of a message stream; of the connection, on message stream 0."""

    __slots__ = ()
    command_name = "onStatus"


class OnFCPublish(_Informs):
    """What some hardware encoders wait for after FCPublish."""

    __slots__ = ()
    command_name = "onFCPublish"


class OnFCUnpublish(_Informs):
    """The answer to FCUnpublish."""

    __slots__ = ()
    command_name = "onFCUnpublish"


class OnFCSubscribe(_Informs):
    """The answer to FCSubscribe."""

    __slots__ = ()
    command_name = "onFCSubscribe"


class OnFCUnsubscribe(_Informs):
    """The answer to FCUnsubscribe, or a server's wish that the viewer leaves."""

    __slots__ = ()
    command_name = "onFCUnsubscribe"


class OnBWDone(Command):
    """The server has measured what it wanted to; FFmpeg and librtmp answer with _checkbw."""

    __slots__ = ()
    command_name = "onBWDone"


@dataclass(frozen=True, slots=True)
class UnknownCommand(Command):
    """A command without a meaning here. `arguments` is all that came after the transaction id."""

    name: str
    arguments: tuple[AmfValue, ...] = ()
