"""The time of a stream over several publications.

Owns the one offset that each publication has: none for the first; for one that continues the stream after a reconnect
or takeover, such that its first frame follows the last one by the wall time that passed, unless it does so by itself.
Within a publication differences stay as the encoder made them, to the millisecond.
"""

from penstock.media.frame import Frame

_TOLERANCE_MS = 1000
"""How far an encoder that kept its clock may be off and still count as going on by itself."""
_MAX_HELD_FRAMES = 64
_MAX_HELD_BYTES = 256 * 1024


class Timeline:
    """Turns the frames of one publication into the stream's time."""

    __slots__ = ("_held", "_last_at", "_last_ms", "_previous_offset_ms", "offset_ms")

    def __init__(self) -> None:
        self._last_ms = 0
        self._last_at = 0.0
        self._previous_offset_ms = 0
        self._held: list[Frame] = []
        self.offset_ms: int | None = 0
        """None until the first frame of a publication that continues the stream has come."""

    def next(self, last_ms: int, last_at: float) -> "Timeline":
        """The time of the publication after this one, when the stream's last frame had this time and came at this."""
        following = Timeline()
        following._last_ms = last_ms
        following._last_at = last_at
        following._previous_offset_ms = self._previous_offset_ms if self.offset_ms is None else self.offset_ms
        following.offset_ms = None
        return following

    def place(self, frame: Frame, now: float) -> list[Frame]:
        """The frames that can be appended now, in the stream's time.

        Codec configuration that comes before the first frame of a continued stream waits for it and gets its time,
        since encoders stamp it with anything.
        """
        if self.offset_ms is not None:
            if self.offset_ms == 0:
                return [frame]
            return [frame._replace(timestamp_ms=frame.timestamp_ms + self.offset_ms)]
        if frame.is_setup:
            self._hold(frame)
            return []
        self.offset_ms = self._offset_for(frame.timestamp_ms, now)
        time_ms = frame.timestamp_ms + self.offset_ms
        held, self._held = self._held, []
        return [*(config._replace(timestamp_ms=time_ms) for config in held), frame._replace(timestamp_ms=time_ms)]

    def _hold(self, frame: Frame) -> None:
        """Keep codec configuration until there is a frame; of too much, the newest."""
        self._held.append(frame)
        while len(self._held) > _MAX_HELD_FRAMES or sum(len(held.payload) for held in self._held) > _MAX_HELD_BYTES:
            del self._held[0]

    def _offset_for(self, first_ms: int, now: float) -> int:
        last_ms = self._last_ms
        expected_ms = last_ms + max(1, round((now - self._last_at) * 1000))
        for offset_ms in (0, self._previous_offset_ms):
            follows = first_ms + offset_ms
            if follows > last_ms and abs(follows - expected_ms) <= _TOLERANCE_MS:
                return offset_ms
        return expected_ms - first_ms
