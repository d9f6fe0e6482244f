"""HLS over HTTP: streams packaged while somebody asks, and views without a connection."""
