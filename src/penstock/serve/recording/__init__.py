"""Streams to FLV files."""
