"""silver.viewer_samples: samples as they are in bronze, under the names and types of the table."""

from pyspark.sql import DataFrame

from penstock.pipeline.transforms.common import VIEW, at


def viewer_samples(samples: DataFrame) -> DataFrame:
    """One row for each viewer_sample of bronze."""
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
