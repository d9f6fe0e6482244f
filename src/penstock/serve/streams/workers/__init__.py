"""Streams between workers: the links, what is followed over them, and what others follow here."""
