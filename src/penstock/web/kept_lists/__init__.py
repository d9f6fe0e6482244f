"""Lists that operators change while the server runs, kept in files of the data folder."""
