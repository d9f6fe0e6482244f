"""Small answers over HTTP."""
