"""Questions in SQL, and who answers them."""
