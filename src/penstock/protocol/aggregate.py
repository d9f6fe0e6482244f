"""Aggregate messages (RTMP 1.0, section 7.1.6): one message that holds many, in the form of FLV tags.

Media servers such as FMS and Wowza send them when they are pulled from. They are split as they are read and never
sent. One part at a time, so that a message of a million empty parts costs no more memory than its own bytes, and each
is a unit of work. Only audio, video and data are taken: a command or control message has no business in one, and a peer
could pack a million of them into a single message.
"""

from struct import Struct

from penstock.protocol.message import Message, MessageType
from penstock.protocol.work import UNLIMITED, WorkMeter

_PART_HEAD = Struct(">II")
_PART_HEAD_BYTES = 11
_BACK_POINTER_BYTES = 4
_TAKEN_TYPES = frozenset((MessageType.AUDIO, MessageType.VIDEO, MessageType.AMF3_DATA, MessageType.AMF0_DATA))


class AggregateReader:
    """The parts of one aggregate message, one at a time."""

    __slots__ = ("_first_time_ms", "_position", "_work", "aggregate", "is_done", "skipped_parts")

    def __init__(self, aggregate: Message, work: WorkMeter | None = None) -> None:
        self.aggregate = aggregate
        self.is_done = False
        self.skipped_parts = 0
        """Parts passed over so far, for their type."""
        self._work = work or WorkMeter()
        self._position = 0
        self._first_time_ms: int | None = None

    def next_message(self, stop_at: int = UNLIMITED) -> Message | None:
        """The next part of a type that is taken; None after the last, or when so much work is done.

        A torn last part is dropped.
        """
        work = self._work
        payload = self.aggregate.payload
        while work.done < stop_at:
            work.done += 1
            start = self._position + _PART_HEAD_BYTES
            if start > len(payload):
                self.is_done = True
                return None
            word0, word1 = _PART_HEAD.unpack_from(payload, self._position)
            end = start + (word0 & 0xFFFFFF)
            if end > len(payload):
                self.is_done = True
                return None
            self._position = end + _BACK_POINTER_BYTES
            time_ms = word1 >> 8 | (word1 & 0xFF) << 24
            if self._first_time_ms is None:
                self._first_time_ms = time_ms
            if word0 >> 24 in _TAKEN_TYPES:
                # The first part's time is the base; stream ids inside parts mean nothing.
                timestamp_ms = (self.aggregate.timestamp_ms + time_ms - self._first_time_ms) & 0xFFFFFFFF
                return self.aggregate._replace(
                    type_id=word0 >> 24, timestamp_ms=timestamp_ms, payload=payload[start:end]
                )
            self.skipped_parts += 1
        return None
