"""Commands that ask a running server through its API."""
