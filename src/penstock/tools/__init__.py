"""The commands publish, play, probe and bench: clients for people. Importers name the modules.

Needs the extra `tools`. A command is a module with `HELP`, `add_arguments(parser)` and `run(arguments) -> int`.
"""
