"""Pictures and sound of recordings as rows."""
