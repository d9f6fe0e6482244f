"""Penstock: a live-video server whose streams are tables."""

__version__ = "0.1.0"
