"""Recordings as rows."""
