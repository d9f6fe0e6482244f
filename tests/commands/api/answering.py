"""A server that answers requests as a test says, and remembers them."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Answer = tuple[int, Any]


class Asked(NamedTuple):
    method: str
    path: str
    authorization: str | None


class Answering(NamedTuple):
    url: str
    asked: list[Asked]
    bodies: list[Any]
    """Of requests that had one, as JSON."""


@contextmanager
def answering(answers: Mapping[str, Answer]) -> Iterator[Answering]:
    """`answers` are by method and path; a text as answer is a place to be redirected to."""
    asked: list[Asked] = []
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            asked.append(Asked(self.command, self.path, self.headers["authorization"]))
            if length := int(self.headers["content-length"] or 0):
                bodies.append(json.loads(self.rfile.read(length)))
            missing = (404, {"detail": "not there"})
            status, value = answers.get(f"{self.command} {self.path}", missing)
            body = b"" if value is None or isinstance(value, str) else json.dumps(value).encode()
            self.send_response(status)
            if isinstance(value, str):
                self.send_header("Location", value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - their names in http.server

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Answering(f"http://127.0.0.1:{server.server_address[1]}", asked, bodies)
        finally:
            server.shutdown()
            thread.join(10)
