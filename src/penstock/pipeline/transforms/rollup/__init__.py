"""Rows of rollups."""
