"""Players made with FFmpeg: what makes them show a stream within a second.

FFmpeg shows nothing of a stream before it has looked at some of it: five seconds where there is one track, forty
frames of video in any case. One that joins begins that far back, and so has it at once (`StreamLog.lookback_s`).
Owns the other case: a stream that is too young, or of which nothing more is kept. There it is told that data begins,
again and again over a time that never was. It counts the time of the track of data that it makes of it, finds that it
has looked for long enough, and goes on with what it knows. The price is that track in its list, which is always empty.
"""

from functools import partial

from penstock.amf import write_amf0_values
from penstock.media.frame import FrameKind
from penstock.protocol.status import StatusCode
from penstock.relay.log import FrameEncoders
from penstock.serve.reactor import Reactor
from penstock.serve.streams.viewer import Viewer

_PATIENCE_S = 0.5
"""With what a viewer has been sent in that time, FFmpeg can tell codecs and rates."""
_ALL_TRACKS_CAME_S = 0.9
"""In a stream that is younger a second track may still come, and FFmpeg is to see it."""
_ANNOUNCED_TRACK_COMES_S = 2.5
"""The same if the publisher has announced it."""
_NOTICES = 36
"""It takes the time of a track for what it has looked at after thirty messages, and the first three do not count."""
_GAP_MS = 3000
"""Of 90 s in all it gives up whatever it still wants to know."""
_DATA_STARTS = write_amf0_values("onStatus", {"code": StatusCode.DATA_START.value})


class FfmpegOpening:
    """Hurries players that would look at a stream for long."""

    def __init__(self, reactor: Reactor, encoders: FrameEncoders) -> None:
        self._reactor = reactor
        self._encode = encoders[FrameKind.DATA]

    def watch(self, viewer: Viewer) -> None:
        """A viewer was let in: see to it that it opens its stream."""
        if viewer.is_ffmpeg:
            self._reactor.call_later(_PATIENCE_S, partial(self._hurry, viewer))

    def _hurry(self, viewer: Viewer) -> None:
        live_stream, now = viewer.live_stream, self._reactor.now
        if live_stream is None or viewer.connection.viewers.get(viewer.stream_id) is not viewer:
            return  # it has gone
        began_at = now if viewer.first_frame_at is None else viewer.first_frame_at
        settles_s = _ANNOUNCED_TRACK_COMES_S if live_stream.log.setup.lacks_announced_kind else _ALL_TRACKS_CAME_S
        due = max(began_at + _PATIENCE_S, live_stream.stream.published_at + settles_s)
        if now < due:
            self._reactor.call_at(due, partial(self._hurry, viewer))
        elif viewer.cursor is not None and viewer.looked_back_s + now - began_at < live_stream.log.lookback_s:
            at_ms = live_stream.log.last_timestamp_ms
            for number in range(_NOTICES):
                notice = self._encode(at_ms + number * _GAP_MS, _DATA_STARTS)
                viewer.connection.queue(viewer.track_filter.fit(notice))
            viewer.connection.flush_output()
