"""silver.viewer_samples: the viewer_sample facts of bronze, as typed columns."""

from pyspark.sql import DataFrame

from penstock.pipeline.transforms.common import VIEW, at


def viewer_samples(samples: DataFrame) -> DataFrame:
    """One row per viewer_sample fact."""
    return samples.select(
        "event_id",
        "server_id",
        "boot_id",
        "view_id",
        *VIEW,
        "app",
        "stream",
        at("at_us").alias("at"),
        "watched_us",
        "sent_bytes",
        "acknowledged_bytes",
        "lag_bytes",
        "lag_ms",
        "skips",
        "skipped_bytes",
        "ping_ms",
        "rtt_us",
        "retransmits",
    )
