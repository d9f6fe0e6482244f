"""A newer FFmpeg than Debian's, as the wheel imageio-ffmpeg carries it: the one that speaks Enhanced RTMP.

Owns where it is and how a command line of the other FFmpeg becomes one of this.
"""

from collections.abc import Sequence

import imageio_ffmpeg  # type: ignore[import-untyped]

# Announced in connect; this FFmpeg publishes and plays the enhanced codecs whether or not the server has them too.
ENHANCED_CODECS = ("-rtmp_enhanced_codecs", "hvc1,av01,vp09")


def find_modern_ffmpeg() -> str:
    """Full path of the wheel's ffmpeg."""
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def by_modern_ffmpeg(command: Sequence[str]) -> list[str]:
    """The same command line, to be run by the wheel's ffmpeg."""
    return [find_modern_ffmpeg(), *command[1:]]
