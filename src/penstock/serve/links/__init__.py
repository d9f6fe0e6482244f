"""Sockets between the processes of one server."""
