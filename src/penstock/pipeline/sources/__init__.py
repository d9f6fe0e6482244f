"""Recordings and live streams as rows: the formats flv, rtmp, frames, loudness and stretches.

Importing this imports no source, since a worker that reads one has no use for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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
    names = {**_SOURCES, "flv": "PushingFlvSource"} if _part("own_plans").have_own_plans(spark) else _SOURCES
    _part("known").make_known(spark, [getattr(_part(module), source) for module, source in names.items()])


def _part(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
