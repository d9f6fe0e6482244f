"""The web process: answers over HTTP, by asyncio. No live media, and no way to a media loop."""
