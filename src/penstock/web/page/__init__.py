"""The page in a browser: its files, and how files are served."""
