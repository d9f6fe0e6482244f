"""What is wrong with streams, found while it lasts."""
