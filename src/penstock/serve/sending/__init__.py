"""Bytes to many sockets: when, by which system call, and from which memory."""
