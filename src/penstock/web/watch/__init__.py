"""Watching in a browser: the page of a stream, and the player that any page can have."""
