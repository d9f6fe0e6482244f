"""Where tables lie, what they hold and how they are committed and read."""
