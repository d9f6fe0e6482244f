"""Aggregate messages (RTMP 1.0, section 7.1.6): one message that holds many, in the form of FLV tags.

Media servers such as FMS and Wowza send them when they are pulled from. They are split as they are read and never
sent. One item at a time, so that a message of a million empty items costs no more memory than its own bytes.
"""

from struct import Struct

from penstock.protocol.message import Message

_ITEM_HEAD = Struct(">II")
_ITEM_HEAD_BYTES = 11
_BACK_POINTER_BYTES = 4


class AggregateReader:
    """The items of one aggregate message, one at a time."""

    __slots__ = ("_aggregate", "_first_time_ms", "_position")

    def __init__(self, aggregate: Message) -> None:
        self._aggregate = aggregate
        self._position = 0
        self._first_time_ms: int | None = None

    def next_message(self) -> Message | None:
        """The next item, or None after the last one. A torn last item is dropped."""
        payload = self._aggregate.payload
        start = self._position + _ITEM_HEAD_BYTES
        if start > len(payload):
            return None
        word0, word1 = _ITEM_HEAD.unpack_from(payload, self._position)
        length = word0 & 0xFFFFFF
        if start + length > len(payload):
            return None
        self._position = start + length + _BACK_POINTER_BYTES
        time_ms = word1 >> 8 | (word1 & 0xFF) << 24
        if self._first_time_ms is None:
            self._first_time_ms = time_ms
        # The first item's time is the base; stream ids inside items mean nothing.
        timestamp_ms = (self._aggregate.timestamp_ms + time_ms - self._first_time_ms) & 0xFFFFFFFF
        return self._aggregate._replace(
            type_id=word0 >> 24, timestamp_ms=timestamp_ms, payload=payload[start : start + length]
        )
