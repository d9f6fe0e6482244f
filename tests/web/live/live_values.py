"""What a worker tells, with whatever a test does not care about filled in."""

from typing import Any

from penstock.control.live import Live, LiveConnection, LivePublisher, LiveStreamState, LiveView

PUBLISHER = LivePublisher("p1", "c1", "192.0.2.1:5000", "rtmp", "FMLE/3.0", None)


def connection(conn_id: str, **fields: Any) -> LiveConnection:
    values: dict[str, Any] = {
        "peer_addr": "192.0.2.1:5000",
        "protocol": "rtmp",
        "client": None,
        "app": "live",
        "opened_at_us": 1,
        "received_bytes": 0,
        "sent_bytes": 0,
    }
    return LiveConnection(conn_id, **{**values, **fields})


def view(view_id: str, stream: str = "a", sent_bytes: int = 0, **fields: Any) -> LiveView:
    values: dict[str, Any] = {
        "conn_id": "c9",
        "app": "live",
        "protocol": "rtmp",
        "peer_addr": "192.0.2.9:5000",
        "client": None,
        "auth_subject": None,
        "started_at_us": 1,
        "watched_us": 0,
        "lag_ms": 0,
        "skips": 0,
    }
    return LiveView(view_id, stream=stream, sent_bytes=sent_bytes, **{**values, **fields})


def stream(name: str, *, is_live: bool = True, **fields: Any) -> LiveStreamState:
    values: dict[str, Any] = {
        "app": "live",
        "started_at_us": 1,
        "publisher": PUBLISHER if is_live else None,
        "video": None,
        "audio": None,
        "is_recording": False,
    }
    return LiveStreamState(stream=name, **{**values, **fields})


def live(**fields: Any) -> Live:
    names = ("connections", "views", "streams", "gone_connections", "gone_views", "gone_streams", "facts")
    values: dict[str, Any] = {"is_reset": False, **{name: [] for name in names}}
    return Live(**{**values, **fields})
