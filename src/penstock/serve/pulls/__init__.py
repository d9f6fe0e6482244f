"""Streams that are fetched from other servers while somebody watches them here."""
