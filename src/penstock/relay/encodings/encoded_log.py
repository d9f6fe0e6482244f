"""A log in another encoding than RTMP's.

Owns nothing but that joiners get first what the encoding says.
"""

from penstock.relay.codec_config import CodecConfig
from penstock.relay.encodings.encoding import Encoding
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.readable_log import JoiningMessage, LogLimits
from penstock.relay.segment import SegmentStore


class EncodedLog(StreamLog):
    """Written by an encoding."""

    def __init__(self, store: SegmentStore, encoding: Encoding, limits: LogLimits, budget: LogBudget) -> None:
        super().__init__(store, encoding.encoders, limits, budget)
        self._encoding = encoding

    def joining_messages(self, config: CodecConfig, timestamp_ms: int) -> tuple[JoiningMessage, ...]:
        """What one gets first who joins at a place."""
        own = self._encoding.joining_messages(config, timestamp_ms)
        return super().joining_messages(config, timestamp_ms) if own is None else own
