"""What happens, as one numbered stream that clients follow."""
