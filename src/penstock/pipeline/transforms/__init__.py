"""What turns facts into tables: functions from frames to frames.

None of them reads or writes a file, and none depends on the order of its rows: the same functions serve an hour's
increment and a rebuild, and the caller gives them the partitions that they need. Rows of bronze are unique when they
come here. A function gives a row for everything that it finds; the caller keeps those of the partitions it asked for.
"""
