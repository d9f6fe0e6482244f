"""Work on recordings that is more than a query: the archive of every recorded file."""
