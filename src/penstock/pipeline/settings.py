"""What a pipeline is told by its operator, as plain values."""

from dataclasses import dataclass, field

from penstock.pipeline.engine.session import SparkSettings
from penstock.pipeline.lake.dimensions import NO_DIMENSIONS, Dimensions
from penstock.pipeline.ops.retention import RetentionSettings


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Where things are and how the pipeline runs."""

    data: str
    """The folder of the socket for questions, and of the archive."""
    lake: str
    landing: str
    recordings: str
    spark: SparkSettings = field(default_factory=SparkSettings)
    silent_us: int = 90_000_000
    dimensions: Dimensions = NO_DIMENSIONS
    retention: RetentionSettings = field(default_factory=RetentionSettings)
