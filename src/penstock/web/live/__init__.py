"""What workers tell: what is open, and what happens."""
