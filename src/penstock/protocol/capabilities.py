"""What peers tell each other in connect (Enhanced RTMP v2, "Enhancing NetConnection connect Command").

Owns the names and bits of these properties. A peer that says nothing may still send enhanced packets, as OBS does,
so nothing here gates what is taken from a publisher.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.amf import AmfValue


class FourCcInfo(enum.IntFlag):
    """What a peer can do with a codec."""

    NONE = 0
    CAN_DECODE = 1
    CAN_ENCODE = 2
    CAN_FORWARD = 4


class CapsEx(enum.IntFlag):
    """Extended features of a peer."""

    NONE = 0
    RECONNECT = 1
    MULTITRACK = 2
    MOD_EX = 4
    NANOSECOND_OFFSET = 8


class VideoFunction(enum.IntFlag):
    """Special video functions of a peer."""

    NONE = 0
    CLIENT_SEEK = 1
    HDR = 2
    METADATA_PACKETS = 4
    LARGE_SCALE_TILE = 8


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The enhanced part of a connect or of its answer. Empty for a peer that said nothing."""

    four_cc_list: tuple[str, ...] = ()
    video_four_cc: Mapping[str, FourCcInfo] = field(default_factory=dict)
    audio_four_cc: Mapping[str, FourCcInfo] = field(default_factory=dict)
    caps_ex: CapsEx = CapsEx.NONE
    video_function: VideoFunction = VideoFunction.NONE

    @property
    def is_enhanced(self) -> bool:
        """Whether the peer announced anything of Enhanced RTMP; videoFunction alone is older than that."""
        return bool(self.four_cc_list or self.video_four_cc or self.audio_four_cc or self.caps_ex)

    def video_info(self, four_cc: str) -> FourCcInfo:
        """What the peer can do with a video codec; a catch-all entry adds to the codec's own."""
        return self._info(self.video_four_cc, four_cc)

    def audio_info(self, four_cc: str) -> FourCcInfo:
        """What the peer can do with an audio codec."""
        return self._info(self.audio_four_cc, four_cc)

    def _info(self, infos: Mapping[str, FourCcInfo], four_cc: str) -> FourCcInfo:
        none = FourCcInfo.NONE
        listed = FourCcInfo.CAN_DECODE if {four_cc, "*"} & set(self.four_cc_list) else none
        return infos.get(four_cc, none) | infos.get("*", none) | listed

    def to_properties(self) -> dict[str, AmfValue]:
        """The properties that say this, in the order of the specification's own examples."""
        properties: dict[str, AmfValue] = {}
        if self.four_cc_list:
            properties["fourCcList"] = list(self.four_cc_list)
        if self.video_four_cc:
            properties["videoFourCcInfoMap"] = {name: float(info) for name, info in self.video_four_cc.items()}
        if self.audio_four_cc:
            properties["audioFourCcInfoMap"] = {name: float(info) for name, info in self.audio_four_cc.items()}
        if self.caps_ex:
            properties["capsEx"] = float(self.caps_ex)
        if self.video_function:
            properties["videoFunction"] = float(self.video_function)
        return properties


# A relay passes on any codec, splits multitrack by track id and reads past ModEx, so it may say all of it.
RELAY_CAPABILITIES = Capabilities(
    video_four_cc={"*": FourCcInfo.CAN_FORWARD},
    audio_four_cc={"*": FourCcInfo.CAN_FORWARD},
    caps_ex=CapsEx.RECONNECT | CapsEx.MULTITRACK | CapsEx.MOD_EX | CapsEx.NANOSECOND_OFFSET,
)


def read_capabilities(properties: Mapping[str, AmfValue]) -> Capabilities:
    """What a connect or its answer says. Whatever has the wrong type is as if it had not been said."""
    names = properties.get("fourCcList")
    return Capabilities(
        four_cc_list=tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else (),
        video_four_cc=_read_infos(properties.get("videoFourCcInfoMap")),
        audio_four_cc=_read_infos(properties.get("audioFourCcInfoMap")),
        caps_ex=CapsEx(_read_bits(properties.get("capsEx"), 0x0F)),
        video_function=VideoFunction(_read_bits(properties.get("videoFunction"), 0x0F)),
    )


def _read_infos(infos: AmfValue) -> dict[str, FourCcInfo]:
    if not isinstance(infos, dict):
        return {}
    return {name: FourCcInfo(bits) for name, value in infos.items() if (bits := _read_bits(value, 0x07))}


def _read_bits(value: AmfValue, known_bits: int) -> int:
    # Bits are numbers of AMF0, so floating point: what is no whole number below 2^32 says nothing.
    if not isinstance(value, int | float) or not 0 <= value < 1 << 32 or value % 1:
        return 0
    return int(value) & known_bits
