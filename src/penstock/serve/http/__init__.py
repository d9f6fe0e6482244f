"""Connections over HTTP, on their way to the web process."""
