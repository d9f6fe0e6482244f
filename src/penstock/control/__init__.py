"""What supervisor, workers and web tell each other. Pure: no sockets, files or clock."""
