"""Whole cycles on a lake of their own: killed, doubled, late, refused, in any order."""
