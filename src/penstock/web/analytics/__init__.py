"""Figures out of the tables, as the pipeline on this machine leaves them; and having it make new ones."""
