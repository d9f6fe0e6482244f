"""Servers that streams are sent on to: their addresses and settings, for all processes that read them."""
