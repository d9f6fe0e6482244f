"""What payloads mean: frames, tags, codecs and FLV files."""
