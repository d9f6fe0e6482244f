"""A real server with an API and a token for it, and requests to it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from penstock.access.keys import role_line
from tests.support.penstock_server import PenstockServer, penstock_server

TOKEN = "a" * 32
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class ApiServer(NamedTuple):
    server: PenstockServer
    url: str

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        """As the admin, unless other headers are given."""
        headers: Mapping[str, str] = request.pop("headers", HEADERS)
        return httpx.request(method, self.url + path, headers=headers, timeout=20, trust_env=False, **request)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def api_server(work_dir: Path, options: Sequence[str] = (), config: str = "") -> Iterator[ApiServer]:
    key = json.dumps(role_line("boss", "admin", TOKEN))
    http = ["--http", "127.0.0.1:0", *options]
    with penstock_server(work_dir, http, f"[api]\nkeys = [{key}]\n{config}") as server:
        started = server.wait_for_line("server started")
        yield ApiServer(server, f"http://{started['http']}")
