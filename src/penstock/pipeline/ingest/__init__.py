"""Facts from landing files into bronze."""
