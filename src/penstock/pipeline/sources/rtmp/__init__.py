"""Live streams as rows."""
