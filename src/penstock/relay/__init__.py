"""The stream is a log: publishers append, everything that consumes is a cursor. No sockets, no files, no clock."""
