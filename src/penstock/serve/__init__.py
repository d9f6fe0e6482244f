"""The live server: the only place with sockets, files and a clock."""
