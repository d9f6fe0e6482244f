"""Kinds of facts by what they are about."""

from typing import Final

VIEW_KINDS: Final = ("play_started", "play_first_keyframe", "play_stopped", "viewer_sample")
BEACON: Final = "view_beacon"
"""About a view too, but told by its player, perhaps after its end: no view is there, or seen last, by this alone."""
STREAM_KINDS: Final = ("stream_sample", "publish_stopped")
CONNECTION_KINDS: Final = ("connection_opened", "connection_closed")
RECORDING_KINDS: Final = ("recording_segment_closed", "recording_gap")
