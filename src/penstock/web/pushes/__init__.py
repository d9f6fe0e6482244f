"""Targets of pushes that operators add while the server runs."""
