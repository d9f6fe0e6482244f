"""Rows of gold."""
