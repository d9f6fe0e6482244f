"""Recordings and live streams as rows: the formats flv, rtmp, frames, loudness and stretches.

Importing this imports no source, since a worker that reads one has no use for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCES: Final = {
    "flv": "FlvSource",
    "rtmp": "RtmpSource",
    "frames": "FramesSource",
    "loudness": "LoudnessSource",
    "stretches": "StretchesSource",
}


def register_sources(spark: "SparkSession") -> None:
    """Make every format known to a session. Doing it again changes nothing."""
    # A source that takes filters is refused by sessions in which this is off.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for module, source in _SOURCES.items():
        spark.dataSource.register(getattr(import_module(f"{__name__}.{module}"), source))
