"""Servers that streams are fetched from: their settings and the addresses of streams there, for all processes."""
