"""Data messages (RTMP 1.0, section 7.1.3): metadata, cue points, captions.

Owns the names that have a meaning to a server, and how a publisher's message becomes the one that viewers get: the
leading @setDataFrame is addressed to the server and goes no further. Other values are never decoded and written
again, so what a publisher sent arrives to the byte, also where nobody but its players can decode it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from penstock.amf import AmfLimits, AmfValue, EcmaArray, read_amf0_value, read_amf0_values, write_amf0_values
from penstock.errors import MalformedAmf

SET_DATA_FRAME = "@setDataFrame"
CLEAR_DATA_FRAME = "@clearDataFrame"
ON_METADATA = "onMetaData"
SAMPLE_ACCESS = "|RtmpSampleAccess"
MAX_DATA_NAME_BYTES = 1024
"""The name of a data message that is relayed; a longer one is ignored with its message."""

_NAME_LIMITS = AmfLimits(max_depth=0, max_items=1)
_STRING_HEAD_BYTES = 5


@dataclass(frozen=True, slots=True)
class OnMetaData:
    """What a stream consists of, as players read it."""

    properties: dict[str, AmfValue]


@dataclass(frozen=True, slots=True)
class SetDataFrame:
    """A publisher's wish that the server keeps this data message for those who join later."""

    name: str
    values: tuple[AmfValue, ...]


@dataclass(frozen=True, slots=True)
class ClearDataFrame:
    """Takes a SetDataFrame back."""

    name: str


@dataclass(frozen=True, slots=True)
class SampleAccess:
    """Whether a player may look at the decoded samples; Flash players ask."""

    allows_audio: bool
    allows_video: bool


@dataclass(frozen=True, slots=True)
class OtherData:
    """Any other data message: onTextData, onCuePoint, onCaption, ad markers."""

    name: str
    values: tuple[AmfValue, ...]


DataMessage: TypeAlias = OnMetaData | SetDataFrame | ClearDataFrame | SampleAccess | OtherData


def read_data(payload: bytes) -> DataMessage:
    """Read all of a data payload of type 18, or of type 15 behind its format byte."""
    name, *values = read_amf0_values(payload) or (None,)
    if not isinstance(name, str):
        raise MalformedAmf("data", f"a payload of {len(payload)} bytes does not start with a name")
    first = values[0] if values else None
    if name == SET_DATA_FRAME and isinstance(first, str):
        return SetDataFrame(first, tuple(values[1:]))
    if name == CLEAR_DATA_FRAME and isinstance(first, str):
        return ClearDataFrame(first)
    if name == ON_METADATA and isinstance(first, dict) and len(values) == 1:
        return OnMetaData(first)
    if name == SAMPLE_ACCESS and len(values) == 2 and isinstance(first, bool) and isinstance(values[1], bool):
        return SampleAccess(first, values[1])
    return OtherData(name, tuple(values))


def write_data(message: DataMessage) -> bytes:
    """The AMF0 payload of a data message."""
    match message:
        case OnMetaData(properties):
            # FFmpeg reads the tracks only out of an ECMA array.
            return write_amf0_values(ON_METADATA, EcmaArray(properties))
        case SetDataFrame(name, values):
            return write_amf0_values(SET_DATA_FRAME, name, *values)
        case ClearDataFrame(name):
            return write_amf0_values(CLEAR_DATA_FRAME, name)
        case SampleAccess(allows_audio, allows_video):
            return write_amf0_values(SAMPLE_ACCESS, allows_audio, allows_video)
        case OtherData(name, values):
            return write_amf0_values(name, *values)


@dataclass(frozen=True, slots=True)
class RelayedData:
    """A publisher's data message as viewers get it. `clears` is set where it takes the named message back."""

    name: str
    payload: bytes
    clears: bool = False


def read_relayed(payload: bytes) -> RelayedData:
    """Read no more than the name, and take off what is addressed to the server."""
    name, end = _read_name(payload)
    clears = name == CLEAR_DATA_FRAME
    if clears or name == SET_DATA_FRAME:
        payload = payload[end:]
        name, _ = _read_name(payload)
    return RelayedData(name, payload, clears)


def _read_name(payload: bytes) -> tuple[str, int]:
    """The name that a payload starts with and where it ends, at the cost of a name whatever follows."""
    name, end = read_amf0_value(payload[: MAX_DATA_NAME_BYTES + _STRING_HEAD_BYTES], 0, _NAME_LIMITS)
    if not isinstance(name, str):
        raise MalformedAmf("data", f"a payload of {len(payload)} bytes does not start with a name")
    return name, end
