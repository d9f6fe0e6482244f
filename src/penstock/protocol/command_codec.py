"""Commands to AMF0 payloads and back (RTMP 1.0, section 7.2).

Owns the layout of each command. Arguments are taken softly, as encoders send numbers as text and flags as numbers,
and leave out what they think nobody reads. What cannot be decoded is left out too; a payload is refused if it does not
start with a name, ends too early or holds too many values.
"""

import math
from collections.abc import Callable, Sequence

from penstock.amf import AmfLimits, AmfValue, read_amf0_leniently, write_amf0_values
from penstock.errors import ProtocolViolation
from penstock.protocol.command import (
    CheckBandwidth,
    CloseStream,
    Command,
    Connect,
    CreateStream,
    DeleteStream,
    Error,
    FCPublish,
    FCSubscribe,
    FCUnpublish,
    FCUnsubscribe,
    GetStreamLength,
    OnBWDone,
    OnFCPublish,
    OnFCSubscribe,
    OnFCUnpublish,
    OnFCUnsubscribe,
    OnStatus,
    Pause,
    PauseRaw,
    Play,
    Play2,
    Publish,
    ReceiveAudio,
    ReceiveVideo,
    ReleaseStream,
    Result,
    Seek,
    UnknownCommand,
)
from penstock.protocol.work import WorkMeter

LIVE_OR_RECORDED = -2.0
MAX_COMMAND_VALUES = 1000
"""A connect of today has about 30; those inside others count too."""

_LIMITS = AmfLimits(max_items=MAX_COMMAND_VALUES)


def as_number(value: AmfValue) -> float | None:
    """A finite number out of what encoders send as one; None if it is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def as_text(value: AmfValue) -> str | None:
    """Text, or a number in the form a person would write it (a stream named 7 arrives as a number)."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value}".removesuffix(".0")
    return None


def as_flag(value: AmfValue) -> bool | None:
    """A boolean, also where it was sent as a number."""
    number = as_number(value)
    return None if number is None else number != 0


def read_command(payload: bytes, work: WorkMeter | None = None) -> Command:
    """Read the payload of a command message of type 20, or of type 17 behind its format byte; a value is a unit."""
    values, items = read_amf0_leniently(payload, limits=_LIMITS)
    if work is not None:
        work.done += items
    name = values[0] if values else None
    if not isinstance(name, str):
        raise ProtocolViolation("command", f"a payload of {len(payload)} bytes does not start with a command name")
    transaction_id = as_number(_argument(values, 1)) or 0.0
    arguments = values[2:]
    reader = _READERS.get(name)
    if reader is None:
        return UnknownCommand(transaction_id, name, tuple(arguments))
    return reader(transaction_id, arguments)


def write_command(command: Command) -> bytes:
    """The AMF0 payload of a command."""
    name = command.name if isinstance(command, UnknownCommand) else command.command_name
    return write_amf0_values(name, command.transaction_id, *_arguments_of(command))


def _arguments_of(command: Command) -> Sequence[AmfValue]:
    match command:
        case Connect(properties=properties, arguments=arguments):
            return properties, *arguments
        case Publish(stream_name=stream_name, publishing_type=publishing_type):
            return None, stream_name, publishing_type
        case Play():
            return _play_arguments(command)
        case Play2(parameters=parameters):
            return None, parameters
        case DeleteStream(stream_id=stream_id):
            return None, float(stream_id)
        case Pause() | PauseRaw():
            return None, command.is_paused, command.position_ms
        case Seek(position_ms=position_ms):
            return None, position_ms
        case ReceiveAudio() | ReceiveVideo():
            return None, command.is_wanted
        case Result() | Error():
            return command.values
        case OnStatus() | OnFCPublish() | OnFCUnpublish() | OnFCSubscribe() | OnFCUnsubscribe():
            return None, command.information
        case ReleaseStream() | FCPublish() | FCUnpublish() | FCSubscribe() | FCUnsubscribe() | GetStreamLength():
            return None, command.stream_name
        case UnknownCommand(arguments=arguments):
            return arguments
        case _:
            return (None,)


def _play_arguments(play: Play) -> list[AmfValue]:
    """What is None at the end is left out; in the middle it becomes the value that leaving it out would mean."""
    arguments: list[AmfValue] = [None, play.stream_name]
    if play.start is not None or play.duration is not None or play.reset is not None:
        arguments.append(LIVE_OR_RECORDED if play.start is None else play.start)
    if play.duration is not None or play.reset is not None:
        arguments.append(-1.0 if play.duration is None else play.duration)
    if play.reset is not None:
        arguments.append(play.reset)
    return arguments


_Reader = Callable[[float, Sequence[AmfValue]], Command]


def _argument(values: Sequence[AmfValue], index: int) -> AmfValue:
    return values[index] if len(values) > index else None


def _object(values: Sequence[AmfValue], index: int) -> dict[str, AmfValue]:
    value = _argument(values, index)
    return value if isinstance(value, dict) else {}


def _bare(kind: type[CreateStream | CheckBandwidth | CloseStream | OnBWDone]) -> _Reader:
    return lambda transaction_id, _values: kind(transaction_id)


def _named(
    kind: type[ReleaseStream | FCPublish | FCUnpublish | FCSubscribe | FCUnsubscribe | GetStreamLength],
) -> _Reader:
    return lambda transaction_id, values: kind(transaction_id, as_text(_argument(values, 1)) or "")


def _informing(kind: type[OnStatus | OnFCPublish | OnFCUnpublish | OnFCSubscribe | OnFCUnsubscribe]) -> _Reader:
    return lambda transaction_id, values: kind(transaction_id, _object(values, 1))


def _pausing(kind: type[Pause | PauseRaw]) -> _Reader:
    return lambda transaction_id, values: kind(
        transaction_id, as_flag(_argument(values, 1)) is not False, as_number(_argument(values, 2)) or 0.0
    )


def _receiving(kind: type[ReceiveAudio | ReceiveVideo]) -> _Reader:
    return lambda transaction_id, values: kind(transaction_id, as_flag(_argument(values, 1)) is not False)


def _answering(kind: type[Result | Error]) -> _Reader:
    return lambda transaction_id, values: kind(transaction_id, tuple(values))


def _read_connect(transaction_id: float, values: Sequence[AmfValue]) -> Command:
    return Connect(transaction_id, _object(values, 0), tuple(values[1:]))


def _read_publish(transaction_id: float, values: Sequence[AmfValue]) -> Command:
    return Publish(transaction_id, as_text(_argument(values, 1)) or "", as_text(_argument(values, 2)) or "live")


def _read_play(transaction_id: float, values: Sequence[AmfValue]) -> Command:
    return Play(
        transaction_id,
        as_text(_argument(values, 1)) or "",
        as_number(_argument(values, 2)),
        as_number(_argument(values, 3)),
        as_flag(_argument(values, 4)),
    )


def _read_play2(transaction_id: float, values: Sequence[AmfValue]) -> Command:
    return Play2(transaction_id, _object(values, 1))


def _read_seek(transaction_id: float, values: Sequence[AmfValue]) -> Command:
    return Seek(transaction_id, as_number(_argument(values, 1)) or 0.0)


def _read_delete_stream(transaction_id: float, values: Sequence[AmfValue]) -> Command:
    return DeleteStream(transaction_id, int(as_number(_argument(values, 1)) or 0))


_READERS: dict[str, _Reader] = {
    "connect": _read_connect,
    "publish": _read_publish,
    "play": _read_play,
    "play2": _read_play2,
    "seek": _read_seek,
    "deleteStream": _read_delete_stream,
    **{kind.command_name: _bare(kind) for kind in (CreateStream, CheckBandwidth, CloseStream, OnBWDone)},
    **{
        kind.command_name: _named(kind)
        for kind in (ReleaseStream, FCPublish, FCUnpublish, FCSubscribe, FCUnsubscribe, GetStreamLength)
    },
    **{
        kind.command_name: _informing(kind)
        for kind in (OnStatus, OnFCPublish, OnFCUnpublish, OnFCSubscribe, OnFCUnsubscribe)
    },
    **{kind.command_name: _pausing(kind) for kind in (Pause, PauseRaw)},
    **{kind.command_name: _receiving(kind) for kind in (ReceiveAudio, ReceiveVideo)},
    **{kind.command_name: _answering(kind) for kind in (Result, Error)},
}
