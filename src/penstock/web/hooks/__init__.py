"""Webhooks: events to receivers over HTTP, kept on disk until they are taken."""
