"""Status codes of NetConnection and NetStream, and the information objects that carry them (RTMP 1.0, section 7.2).

The level matters as much as the code: FFmpeg ends on any status of level "error" and waits for ever on one that is
an error by its code only, so a code's level is fixed here and nowhere else.
"""

import enum

from penstock.amf import AmfValue


class StatusCode(enum.StrEnum):
    """Every code that a server or client of ours sends or understands."""

    CONNECT_SUCCESS = "NetConnection.Connect.Success"
    CONNECT_REJECTED = "NetConnection.Connect.Rejected"
    CONNECT_FAILED = "NetConnection.Connect.Failed"
    CONNECT_INVALID_APP = "NetConnection.Connect.InvalidApp"
    CONNECT_CLOSED = "NetConnection.Connect.Closed"
    CONNECT_APP_SHUTDOWN = "NetConnection.Connect.AppShutdown"
    CONNECT_RECONNECT_REQUEST = "NetConnection.Connect.ReconnectRequest"
    CALL_FAILED = "NetConnection.Call.Failed"
    PROXY_NOT_RESPONDING = "NetConnection.Proxy.NotResponding"

    PUBLISH_START = "NetStream.Publish.Start"
    PUBLISH_BAD_NAME = "NetStream.Publish.BadName"
    PUBLISH_DENIED = "NetStream.Publish.Denied"
    PUBLISH_REJECTED = "NetStream.Publish.Rejected"
    PUBLISH_IDLE = "NetStream.Publish.Idle"
    UNPUBLISH_SUCCESS = "NetStream.Unpublish.Success"

    PLAY_START = "NetStream.Play.Start"
    PLAY_RESET = "NetStream.Play.Reset"
    PLAY_STOP = "NetStream.Play.Stop"
    PLAY_COMPLETE = "NetStream.Play.Complete"
    PLAY_FAILED = "NetStream.Play.Failed"
    PLAY_STREAM_NOT_FOUND = "NetStream.Play.StreamNotFound"
    PLAY_PUBLISH_NOTIFY = "NetStream.Play.PublishNotify"
    PLAY_UNPUBLISH_NOTIFY = "NetStream.Play.UnpublishNotify"
    PLAY_INSUFFICIENT_BANDWIDTH = "NetStream.Play.InsufficientBW"
    DATA_START = "NetStream.Data.Start"

    PAUSE_NOTIFY = "NetStream.Pause.Notify"
    UNPAUSE_NOTIFY = "NetStream.Unpause.Notify"
    SEEK_NOTIFY = "NetStream.Seek.Notify"
    SEEK_FAILED = "NetStream.Seek.Failed"
    SEEK_INVALID_TIME = "NetStream.Seek.InvalidTime"
    STREAM_FAILED = "NetStream.Failed"


_ERRORS = frozenset(
    {
        StatusCode.CONNECT_REJECTED,
        StatusCode.CONNECT_FAILED,
        StatusCode.CONNECT_INVALID_APP,
        StatusCode.CONNECT_APP_SHUTDOWN,
        StatusCode.CALL_FAILED,
        StatusCode.PROXY_NOT_RESPONDING,
        StatusCode.PUBLISH_BAD_NAME,
        StatusCode.PUBLISH_DENIED,
        StatusCode.PUBLISH_REJECTED,
        StatusCode.PLAY_FAILED,
        StatusCode.PLAY_STREAM_NOT_FOUND,
        StatusCode.SEEK_FAILED,
        StatusCode.SEEK_INVALID_TIME,
        StatusCode.STREAM_FAILED,
    }
)
_WARNINGS = frozenset({StatusCode.PLAY_INSUFFICIENT_BANDWIDTH})


def level_of(code: StatusCode) -> str:
    """The level that goes with a code: "status", "warning" or "error"."""
    if code in _ERRORS:
        return "error"
    return "warning" if code in _WARNINGS else "status"


def information(code: StatusCode, description: str, **more: AmfValue) -> dict[str, AmfValue]:
    """The information object of a status; players read it by position too, so the order is the usual one."""
    return {"level": level_of(code), "code": code.value, "description": description, **more}
