"""Recordings and live streams as rows: the formats flv, rtmp, frames, loudness and media_defects.

Importing this imports no source: a worker that reads one does not need the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCES: Final = {
    "flv.source": "FlvSource",
    "rtmp.source": "RtmpSource",
    "decoded.frames": "FramesSource",
    "decoded.loudness": "LoudnessSource",
    "decoded.media_defects": "MediaDefectsSource",
}


def register_sources(spark: "SparkSession") -> None:
    """Register every format in a session. Repeating it changes nothing."""
    sources = [getattr(_module(name), source) for name, source in _SOURCES.items()]
    _module("registration").register_data_sources(spark, sources)


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
