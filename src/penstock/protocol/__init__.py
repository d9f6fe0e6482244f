"""RTMP without input or output: bytes in, events out, one at a time."""
