"""A real web process that is asked about access, with a real callback, and what it leaves in its log."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from penstock.config import Config
from penstock.config_secrets import policy_of
from penstock.control.live import AccessAnswer, AccessQuestion
from penstock.control.messages import Reload, Stop
from penstock.control.parcels import ParcelReader
from tests.web.web_process import Web, send_message, web_process

SECRETS = ("hunter2", "topsecretstream")


class Backend(BaseHTTPRequestHandler):
    asked: ClassVar[list[dict[str, Any]]]

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(question)
        status = 200 if "key=hunter2" in question["query"] else 403
        body = b'{"subject": "alice", "stream": "main"}'
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def backend() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    class OneBackend(Backend):
        asked: ClassVar[list[dict[str, Any]]] = []

    server = ThreadingHTTPServer(("127.0.0.1", 0), OneBackend)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/auth?t=hunter2", OneBackend.asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def values(folder: Path, callback: str) -> dict[str, Any]:
    return {
        "server": {"data_dir": str(folder)},
        "auth": {"callback": callback, "callback_timeout_s": 4},
        "access": {"live": {"publish": ["callback"]}},
    }


def ask(web: Web, query: str, config: dict[str, Any]) -> AccessAnswer:
    """As a worker asks that has taken over this configuration already."""
    edition = policy_of(Config.model_validate(config), {}).edition
    names = ("publish", "live", "topsecretstream", "rtmp", "192.0.2.1:4000")
    send_message(web.worker, AccessQuestion(7, *names, "", query, None, is_held=False, edition=edition))
    return hear_answer(web.worker)


def hear_answer(worker: socket.socket) -> AccessAnswer:
    reader = ParcelReader()
    while (parcel := reader.next_parcel()) is None:
        data = worker.recv(1 << 16)
        assert data, "the link has ended"
        reader.feed(data)
    return msgspec.msgpack.Decoder(AccessAnswer).decode(parcel.body)


def test_a_worker_is_answered_by_the_callback_and_by_rules_as_they_change(tmp_path: Path) -> None:
    with backend() as (url, asked), web_process(tmp_path) as web:
        config, other = values(tmp_path, url), values(tmp_path, "http://127.0.0.1:1/")
        web.tell(Reload(config))
        assert ask(web, "key=hunter2", config) == AccessAnswer(7, True, True, "callback", "alice", "main")
        assert not ask(web, "key=wrong", config).is_allowed
        assert [each["stream"] for each in asked] == ["topsecretstream"] * 2
        web.tell(Reload(other))
        assert not ask(web, "key=hunter2", other).is_allowed
        web.tell(Stop(is_at_once=True))
        assert web.wait_for_end() == 0
        assert web.process.stderr is not None
        log = web.process.stderr.read()
    assert "The callback for access gives no answer" in log
    assert not [each for each in SECRETS if each in log]
