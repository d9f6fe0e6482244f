"""python -m tests.web.hooks.failing_receiver PORT FILE: a receiver of the worst kind, as a process that can be killed.

Half of all requests fail: the first of each message. Every seventh message it refuses by silence. What it takes is
written to a file, headers and all, before it says so: the line that a judge reads is the promise that the sender got.
"""

import http.server
import json
import os
import sys
import time

_seen: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["webhook-id"] not in _seen:
            _seen.append(self.headers["webhook-id"])
            if len(_seen) % 7 == 0:
                time.sleep(30)
            self._answer(500)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        line = json.dumps({"headers": headers, "body": body.decode()}) + "\n"
        os.write(out, line.encode())
        self._answer(200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Senders give up on those that hang."""


if __name__ == "__main__":
    out = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
