"""Exec hooks: programs that run for events, and while a stream is published."""
