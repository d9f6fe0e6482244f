"""A log's frames for viewers over HTTP: FLV, FLV in WebSocket messages, fragmented MP4."""
