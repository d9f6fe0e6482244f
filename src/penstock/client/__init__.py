"""An RTMP client for asyncio: publish to and play from any server, Enhanced RTMP included.

Publish frames, paced by the caller; a frame is what `penstock.media.frame.frame_of` makes of a payload::

    import penstock.client

    async with penstock.client.publish("rtmp://127.0.0.1/live/test") as stream:
        await stream.send_metadata({"width": 1280.0, "height": 720.0})
        await stream.send(frame)

Play frames, as fast as the caller takes them::

    async with penstock.client.play("rtmp://127.0.0.1/live/test", reconnect=True) as stream:
        async for frame in stream:
            print(frame.kind.name, frame.timestamp_ms, len(frame.payload), frame.is_key)

`rtmps://` is RTMP over TLS, checked by the system's certificates or by `ssl_context`. A URL is split as FFmpeg splits
it; `app` and `stream` say it outright where that is not meant. `Timeouts` holds every deadline. A server that says no
is RemoteRefused, one that is not there or falls silent RemoteLost, one that breaks RTMP ProtocolViolation, and a URL
that names no stream MalformedInput.
"""

from penstock.client.link import Timeouts
from penstock.client.playing import Backoff, PlayStream, play
from penstock.client.publishing import PublishStream, publish
from penstock.rtmp_address import StreamAddress, read_address

__all__ = [
    "Backoff",
    "PlayStream",
    "PublishStream",
    "StreamAddress",
    "Timeouts",
    "play",
    "publish",
    "read_address",
]
