"""What is told of pushes: facts, and what web shows."""
