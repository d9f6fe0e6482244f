"""The supervisor: listeners, limits, names, and the processes of a server. No media byte passes through it."""

from penstock.serve.supervisor.program import run

__all__ = ["run"]
