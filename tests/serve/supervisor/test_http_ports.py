"""A whole server over HTTP: one port or two, under TLS, and figures that never go back whoever is killed."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import POLL_S
from tests.support.rtmp_driver import rtmp_client
from tests.support.tls import Files, trusting
from tests.web.test_metrics import samples_of
from tests.web.web_process import read_all, status_of

DEADLINE_S = 20.0


def ask(server: PenstockServer, listener: str, path: str, files: Files | None = None) -> tuple[int, str]:
    host, port = str(server.wait_for_line("server started")[listener]).split(":")
    with contextlib.ExitStack() as stack:
        client: socket.socket = stack.enter_context(socket.create_connection((host, int(port)), 10))
        if files is not None:
            client = stack.enter_context(trusting(files.authority).wrap_socket(client, server_hostname="localhost"))
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = read_all(client)
    return status_of(answer), answer.split(b"\r\n\r\n", 1)[1].decode()


def test_with_two_ports_everything_is_at_web_and_nothing_at_the_other(tmp_path: Path) -> None:
    config = '[http]\nweb_listen = "127.0.0.1:0"\n'
    with penstock_server(tmp_path, ["--http", "127.0.0.1:0"], config) as server:
        assert ask(server, "http", "/healthz") == (404, "Not Found\n")
        assert ask(server, "web_http", "/nothing") == (404, "Not Found\n")
        assert ask(server, "web_http", "/metrics")[0] == 200
        wait_until_ready(server, "web_http")


def test_under_tls_both_ports_speak_it(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)
    config = f'[http]\nweb_listen = "127.0.0.1:0"\ncert = "{files.cert}"\nkey = "{files.key}"\n'
    with penstock_server(tmp_path, ["--http", "127.0.0.1:0"], config) as server:
        assert ask(server, "https", "/healthz", files) == (404, "Not Found\n")
        assert ask(server, "web_https", "/metrics", files)[0] == 200


def test_one_port_under_tls_leads_to_web(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)
    config = f'[http]\ncert = "{files.cert}"\nkey = "{files.key}"\n'
    with penstock_server(tmp_path, ["--http", "127.0.0.1:0"], config) as server:
        assert ask(server, "https", "/metrics", files)[0] == 200


def test_a_worker_and_then_web_are_killed_and_no_counter_goes_back(tmp_path: Path) -> None:
    config = '[http]\nweb_listen = "127.0.0.1:0"\n'
    with penstock_server(tmp_path, ["--workers", "1"], config) as server:
        for _ in range(3):
            with rtmp_client(server.port) as client:
                client.publish("test")
        seen = counters(server)
        while not seen["penstock_received_bytes_total"]:
            time.sleep(POLL_S)
            seen = counters(server)
        for victim, lives in (("worker", 1), ("web", 1), ("web", 2), ("worker", 2), ("web", 3)):
            os.kill(pid_of(server, f"{victim} started", lives), signal.SIGKILL)
            pid_of(server, f"{victim} started", lives + 1)
            for now in several(server):
                gone_back = {name: (count, now.get(name)) for name, count in seen.items() if now.get(name, -1) < count}
                assert gone_back == {}, f"after {victim} {lives}"
                seen = now


def several(server: PenstockServer) -> Iterator[dict[str, float]]:
    """The counters, right away and until live workers have told again."""
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        yield counters(server)
        time.sleep(0.2)


def counters(server: PenstockServer) -> dict[str, float]:
    """But for those of single streams, which end with their streams."""
    status, text = ask(server, "web_http", "/metrics")
    assert status == 200
    samples = samples_of(text.encode())
    return {
        name: value
        for name, value in samples.items()
        if name.startswith("penstock_")
        and not name.startswith("penstock_stream_")
        and name.split()[0].endswith(("_total", "_bucket", "_count", "_sum"))
    }


def pid_of(server: PenstockServer, start: str, lives: int) -> int:
    """Of the process that began by this line for so many times."""
    server.wait_for_line(start, lives)
    return [int(str(line["pid"])) for line in server.log_lines() if line["msg"] == start][lives - 1]


def wait_until_ready(server: PenstockServer, listener: str) -> None:
    until = time.monotonic() + DEADLINE_S
    while ask(server, listener, "/readyz") != (200, "ready\n"):
        assert time.monotonic() < until
        time.sleep(POLL_S)
