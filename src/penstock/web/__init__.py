"""The web process: answers over HTTP, by asyncio. No media, and no way to a media loop."""
