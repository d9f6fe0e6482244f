"""The API without sockets: requests from an address, over a state of the test."""

import asyncio
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import httpx

from penstock.access.keys import role_line
from penstock.config import Config
from penstock.control.live import (
    AudioTrack,
    Live,
    LiveConnection,
    LivePublisher,
    LiveStreamState,
    LiveView,
    VideoTrack,
    WebToWorker,
)
from penstock.web.access.links import Links
from penstock.web.api.app import Api
from penstock.web.api.catalogue import Catalogue
from penstock.web.api.config_view import ConfigView
from penstock.web.api.context import ApiContext, Identity
from penstock.web.api.guard import GuardSettings
from penstock.web.board import Board
from penstock.web.kept_lists.block_list import BlockList
from penstock.web.kept_lists.push_list import PushList
from penstock.web.live.happenings import Happenings
from penstock.web.programs.launcher import Launcher
from penstock.web.programs.test_pattern import TestPattern

TOKENS = {"read": "r" * 32, "operate": "o" * 32, "admin": "a" * 32}
KEYS = tuple(role_line(f"{role}er", role, token) for role, token in TOKENS.items())  # type: ignore[arg-type]
NOW = 1_790_000_000.0
LINK_SECRET = b"a secret of this life"
OPENED_AT_US = 1_789_999_990_250_000


def connection(conn_id: str, app: str | None = "live", **values: Any) -> LiveConnection:
    fields = {"peer_addr": "192.0.2.1:5000", "protocol": "rtmp", "client": "OBS", "opened_at_us": OPENED_AT_US}
    return LiveConnection(conn_id=conn_id, app=app, **{**fields, "received_bytes": 10, "sent_bytes": 20, **values})


def view(view_id: str, stream: str = "a", **values: Any) -> LiveView:
    fields: dict[str, Any] = {
        "conn_id": f"c-{view_id}",
        "app": "live",
        "protocol": "rtmp",
        "peer_addr": "192.0.2.9:6000",
        "client": None,
        "auth_subject": None,
        "started_at_us": OPENED_AT_US,
        "watched_us": 5_000_000,
        "sent_bytes": 100,
        "lag_ms": None,
        "skips": 0,
    }
    return LiveView(view_id=view_id, stream=stream, **{**fields, **values})


def stream(name: str = "a", app: str = "live", *, is_waiting: bool = False, **values: Any) -> LiveStreamState:
    publisher = LivePublisher("p1", "c1", "192.0.2.1:5000", "rtmp", "OBS", "studio", "key")
    fields: dict[str, Any] = {
        "started_at_us": OPENED_AT_US,
        "publisher": None if is_waiting else publisher,
        "video": VideoTrack("H.264", 1280, 720),
        "audio": AudioTrack("AAC", 48_000, 2),
        "is_recording": False,
        "bitrate_bps": 2_000_000,
        "fps": 30.0,
        "received_bytes": 1000,
    }
    return LiveStreamState(app=app, stream=name, **{**fields, **values})


def live(**values: Any) -> Live:
    nothing: dict[str, Any] = {
        "is_reset": False,
        "connections": [],
        "views": [],
        "streams": [],
        "gone_connections": [],
        "gone_views": [],
        "gone_streams": [],
        "facts": [],
    }
    return Live(**{**nothing, **values})


class FakeOrders:
    """Workers that do what they are told at once, if `carry_out` says how."""

    def __init__(self) -> None:
        self.sent: list[tuple[int | None, WebToWorker]] = []
        self.drained: list[float] = []
        self.complaint: str | None = None
        self.is_reachable = True
        self.carry_out: Any = lambda order: None

    def to_worker(self, worker: int, order: WebToWorker) -> bool:
        self.sent.append((worker, order))
        self.carry_out(order)
        return self.is_reachable

    def to_any_worker(self, order: WebToWorker) -> bool:
        self.sent.append((None, order))
        self.carry_out(order)
        return self.is_reachable

    def drain(self, within_s: float) -> None:
        self.drained.append(within_s)

    def reload(self) -> Awaitable[str | None]:
        async def answer() -> str | None:
            return self.complaint

        return answer()


class Caller:
    """Who asks, and all that is asked about."""

    def __init__(self, folder: Path, settings: GuardSettings | None = None, config: Config | None = None) -> None:
        self.time = NOW
        self.told: list[Any] = []
        self.orders = FakeOrders()
        self.happenings = Happenings("edge-1", "boot")
        self.board = Board(2, own_pid=1)
        self.catalogue = Catalogue(folder)
        self.blocks = BlockList(folder, lambda: self.time, self.told.append)
        self.pushes = PushList(folder, self.told.append)
        self.config = ConfigView(config or Config())
        self.context = ApiContext(
            Identity("edge-1", "life", "1.2.3", OPENED_AT_US, 2),
            self.board,
            self.happenings,
            self.catalogue,
            self.blocks,
            self.pushes,
            self.config,
            self.orders,
            lambda: self.time,
            lambda: self.time,
            Links(LINK_SECRET, lambda: self.time),
            TestPattern(Launcher(), {}, lambda: self.time),
        )
        self.api = Api(self.context, settings or GuardSettings(keys=KEYS))

    def tell(self, worker: int = 1, **values: Any) -> None:
        """A worker tells what is open."""
        self.happenings.state.receive(worker, live(**values))

    def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        role: str | None = "admin",
        headers: Mapping[str, str] | None = None,
        address: str | None = "127.0.0.1",
        **request: Any,
    ) -> httpx.Response:
        """One request, with the token of a role; None: without."""
        token = {} if role is None else {"authorization": f"Bearer {TOKENS.get(role, role)}"}

        async def send() -> httpx.Response:
            client = (address, 5000)
            transport = httpx.ASGITransport(self.api, client=client if address else None)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as session:
                return await session.request(method, path, headers={**token, **(headers or {})}, **request)

        return asyncio.run(send())

    def json(self, path: str, **request: Any) -> Any:
        answer = self.ask(f"/api/v1{path}", **request)
        assert answer.status_code == 200, answer.text
        return answer.json()
