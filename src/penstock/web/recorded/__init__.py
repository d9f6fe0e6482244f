"""Recordings as browsers play them: from a place in an FLV file on, as fragmented MP4."""
