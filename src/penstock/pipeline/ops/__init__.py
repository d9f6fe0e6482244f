"""Runs: cycles, compaction, retention, erasure."""
