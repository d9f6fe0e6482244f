"""How often recordings may begin: what a file costs, however little is in it.

Owns the count of first files, by stream and of all streams together. A file costs four syncs of the disk, two rows of
the manifest and the room for its key frame index, so publishers that come and go may not have one each time. The files
that follow in the same recording are not counted: they cannot follow each other fast. Each worker has its share of what
the server may, since a stream that comes back may come anywhere.
"""

from typing import Final

_MAX_PER_STREAM: Final = 6
_MIN_PER_STREAM: Final = 2
"""However many workers there are: a publisher that comes back once is nothing odd."""
_STREAM_INTERVAL_S: Final = 10.0
_MAX_IN_ALL: Final = 600
_ALL_INTERVAL_S: Final = 0.5
"""All publishers of a busy server may come back at once after a restart; then there is one more every so often."""
_REMEMBERED_STREAMS: Final = 1000


class FileAllowance:
    """What may be begun now. An allowance that is used up grows again by one file per interval."""

    def __init__(self, workers: int = 1) -> None:
        self._max_per_stream = max(_MIN_PER_STREAM, _MAX_PER_STREAM // workers)
        self._stream_interval_s = _STREAM_INTERVAL_S * workers
        self._max_in_all = max(1, _MAX_IN_ALL // workers)
        self._all_interval_s = _ALL_INTERVAL_S * workers
        self._whole_at = 0.0
        """When the allowance of all streams is whole again; below, the same by stream."""
        self._stream_whole_at: dict[str, float] = {}

    def refusal(self, stream_key: str, now: float) -> str | None:
        """Why a recording may not begin now; None if it may, and then it is counted."""
        stream_whole_at = max(self._stream_whole_at.get(stream_key, now), now) + self._stream_interval_s
        whole_at = max(self._whole_at, now) + self._all_interval_s
        stream_span_s = self._max_per_stream * self._stream_interval_s
        if stream_whole_at - now > stream_span_s:
            return f"the stream began more than {self._max_per_stream} recordings in {stream_span_s:g} s"
        if whole_at - now > self._max_in_all * self._all_interval_s:
            return f"more than {self._max_in_all} recordings began in a short time"
        self._stream_whole_at[stream_key] = stream_whole_at
        self._whole_at = whole_at
        if len(self._stream_whole_at) > _REMEMBERED_STREAMS:
            self._stream_whole_at = {key: at for key, at in self._stream_whole_at.items() if at > now}
        return None
