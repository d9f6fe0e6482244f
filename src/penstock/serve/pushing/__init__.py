"""Streams of this worker, sent on to other servers."""
