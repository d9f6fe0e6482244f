"""What a pipeline is told by its operator, as plain values."""

from dataclasses import dataclass, field

from penstock.pipeline.retention import RetentionSettings
from penstock.pipeline.session import SparkSettings


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Where things are and how the pipeline runs."""

    data: str
    """The folder of checkpoints, of the socket for questions, and of the archive."""
    lake: str
    landing: str
    recordings: str
    spark: SparkSettings = field(default_factory=SparkSettings)
    silent_us: int = 90_000_000
    retention: RetentionSettings = field(default_factory=RetentionSettings)
