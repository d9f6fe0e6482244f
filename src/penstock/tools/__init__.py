"""The commands publish, play, probe and bench: clients for people. Importers name the modules.

Needs the extra `tools`. What the commands take is in `command_line`; each has a module of its name that does its work.
"""

from typing import Final

FAILURE: Final = 1
"""A server, a file or the network is at fault."""
WRONG_USE: Final = 2
"""The arguments are."""
