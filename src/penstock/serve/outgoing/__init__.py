"""Connections that a worker opens itself: to the targets of pushes and the origins of pulls."""
