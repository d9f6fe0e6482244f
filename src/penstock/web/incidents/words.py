"""What is said about incidents: evidence as gold.incidents words it, and one sentence of advice for each kind."""

from typing import Final

from penstock.web.incidents.episodes import Episode
from penstock.web.incidents.second import SECOND_US

INGEST_STALLED: Final = "ingest_stalled"
BITRATE_COLLAPSE: Final = "bitrate_collapse"
KEYFRAME_INTERVAL: Final = "keyframe_interval"
AV_DRIFT: Final = "av_drift"
TIMESTAMP_JUMPS: Final = "timestamp_jumps"
RECONNECT_STORM: Final = "reconnect_storm"

ADVICE: Final = {
    INGEST_STALLED: "Check the encoder and its network: its connection is open, and nothing comes.",
    BITRATE_COLLAPSE: "Give the encoder a lower bitrate or a better uplink: it sends far less than it usually does.",
    KEYFRAME_INTERVAL: "Set the encoder's key frame interval to 2 s: whoever joins has to wait for a key frame.",
    AV_DRIFT: "Check the encoder's audio source and its sync offset, and restart it if the distance grows.",
    TIMESTAMP_JUMPS: "Restart the encoder or its source: its timestamps jump, at which players stutter or stop.",
    RECONNECT_STORM: "Read the encoder's log and check its network: it connects again and again.",
}
"""By kind of incident, in the order in which they are told."""


def evidence_of(kind: str, episode: Episode) -> str:
    """The figures that show it, in words."""
    lasted_us, most, reference = episode.lasted_us, episode.most, episode.reference
    seconds = f"{lasted_us // SECOND_US}.{lasted_us % SECOND_US // (SECOND_US // 10)} s"
    match kind:
        case "ingest_stalled":
            return f"nothing came for {seconds}"
        case "bitrate_collapse":
            least, median = episode.least or 0, reference or 1
            share = f"{least * 100 // median} % of the hour's median of {median // 1000} kbit/s"
            return f"bitrate down to {least // 1000} kbit/s, {share}, for {seconds}"
        case "keyframe_interval" if most is None:
            return f"no second key frame for {seconds}"
        case "keyframe_interval":
            return f"key frames up to {tenths(most or 0)} s apart for {seconds}"
        case "av_drift":
            skew = None if most is None else f"audio and video up to {most} ms apart"
            drift = None if reference is None else f"media time up to {reference} ms off the clock"
            return f"{' and '.join(text for text in (skew, drift) if text)} for {seconds}"
        case "timestamp_jumps":
            return f"{reference} timestamp jumps within a minute"
        case _:
            return f"{reference} publications within 5 minutes"


def tenths(milliseconds: int) -> str:
    """Seconds with one digit behind the point, cut off."""
    return f"{milliseconds // 1000}.{milliseconds % 1000 // 100}"
