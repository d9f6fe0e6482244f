"""A log as parts and segments of fragmented MP4, for HLS and live MP4."""
