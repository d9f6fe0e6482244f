"""`penstock up`: everything that one machine runs; for now that is the server."""

from penstock.commands.serve import add_arguments, run

__all__ = ["HELP", "add_arguments", "run"]

HELP = "start everything on this machine"
