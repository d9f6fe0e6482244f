"""From a log to an outgoing connection: one cursor, and what a server that joins has to be sent first.

Owns the place in the log. Begins at the newest key frame with the codec configuration in force there, and goes on from
message to message. Nothing is kept for a target that does not read: when the log has dropped what comes next, it goes
on at the newest key frame. Metadata goes out as `@setDataFrame`, as servers keep for those who join them later only
what comes so.
"""

from collections.abc import Callable
from typing import Final, Protocol

from penstock.amf import write_amf0_values
from penstock.media.frame import FrameKind
from penstock.protocol.data import SET_DATA_FRAME
from penstock.relay.codec_config import ON_METADATA
from penstock.relay.cursor import Cursor
from penstock.relay.entry_points import EntryPoint
from penstock.relay.payload import read_payloads
from penstock.relay.readable_log import ReadableLog

_BATCH_BYTES: Final = 64 * 1024
_SET_DATA_FRAME: Final = write_amf0_values(SET_DATA_FRAME)
_ON_METADATA: Final = write_amf0_values(ON_METADATA)


class MessageTaker(Protocol):
    """An outgoing connection, as far as it is needed here."""

    @property
    def has_room(self) -> bool:
        """Whether more may be sent."""

    def send_media(self, type_id: int, timestamp_ms: int, payload: bytes) -> None:
        """Queue an audio or video message."""

    def send_data(self, timestamp_ms: int, data: bytes) -> None:
        """Queue a data message."""


class LogSender:
    """One target's place in a log."""

    def __init__(self, log: ReadableLog, chunk_size: int) -> None:
        """`chunk_size` is the one that the log is encoded with."""
        self._log = log
        self._chunk_size = chunk_size
        self._cursor = Cursor(log)
        self._has_place = False
        self._lost_position: int | None = None
        """Where it was when what came next was gone."""
        self._sent_timestamp_ms: int | None = None
        self.skips = 0
        self.skipped_bytes = 0

    @property
    def lag_ms(self) -> int | None:
        """How far what was sent is behind what is there; None: nothing was sent on this connection yet."""
        if self._sent_timestamp_ms is None:
            return None
        if self._has_place and self._cursor.is_in_step:
            return 0
        return max(0, self._log.last_timestamp_ms - self._sent_timestamp_ms)

    def begin(self) -> None:
        """There is a new connection, to which nothing was sent yet."""
        self._cursor.release()
        self._has_place = False
        self._lost_position = self._sent_timestamp_ms = None

    def release(self) -> None:
        """Nothing more is sent."""
        self._cursor.release()

    def send(self, taker: MessageTaker, is_late: Callable[[], bool], *, stops_at_key: bool = False) -> bool:
        """Send until the target has to read, all is sent or it is late. With `stops_at_key`: whether it came to one."""
        while taker.has_room:
            if not self._has_place and not self._take_place(taker):
                return False
            piece = self._cursor.next_range()
            if piece is None:
                if self._cursor.is_in_step:
                    return False
                self._lost_position, self._has_place = self._cursor.position, False
                continue
            entries = piece.segment.entries_from(piece.position, _BATCH_BYTES)
            for entry, payload in read_payloads(piece.segment, entries, self._chunk_size):
                if stops_at_key and (entry.is_key or not self._log.has_video):
                    return True
                self._send_message(taker, entry.kind, entry.timestamp_ms, bytes(payload), is_setup=entry.is_setup)
                # Whole messages alone are sent on, so it never stands inside of one.
                self._cursor.position = entry.position + entry.encoded_bytes
                self._sent_timestamp_ms = entry.timestamp_ms
                if not taker.has_room:
                    break
            self._cursor.release()
            if is_late():
                return False
        return False

    def _take_place(self, taker: MessageTaker) -> bool:
        """Begin where one may. False: there is no such place now."""
        point = self._place()
        if point is None:
            return False
        if self._lost_position is not None:
            self.skips += 1
            self.skipped_bytes += max(0, point.position - self._lost_position)
            self._lost_position = None
        self._cursor.position = point.position
        self._has_place = True
        for frame in point.config.joining_frames(point.timestamp_ms):
            # Metadata with a time of its own is a subtitle to FFmpeg, which then opens a track that is not there.
            timestamp_ms = 0 if frame.kind is FrameKind.DATA else point.timestamp_ms
            self._send_message(taker, frame.kind, timestamp_ms, frame.payload, is_setup=True)
        return True

    def _place(self) -> EntryPoint | None:
        log = self._log
        point = log.newest_point
        # What was appended and is not flushed yet is no place, and one that was lost is none any more.
        if point is None or not log.start <= point.position < log.head:
            return None
        if self._lost_position is not None and point.position < self._lost_position:
            return None
        return point

    @staticmethod
    def _send_message(
        taker: MessageTaker, kind: FrameKind, timestamp_ms: int, payload: bytes, *, is_setup: bool
    ) -> None:
        if kind is not FrameKind.DATA:
            taker.send_media(kind, timestamp_ms, payload)
        elif is_setup and payload.startswith(_ON_METADATA):
            taker.send_data(timestamp_ms, _SET_DATA_FRAME + payload)
        else:
            taker.send_data(timestamp_ms, payload)
