"""Rows of silver."""
