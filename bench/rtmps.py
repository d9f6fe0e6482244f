"""What TLS costs per viewer: the same stream to the same number of viewers, plain and under TLS, side by side.

    python -m bench.rtmps [--viewers 200] [--seconds 20]

Owns viewers that read as cheaply as they can: TLS is spoken by them up to the request to play, and what comes after is
read and thrown away sealed, so that the machine is left to the server. The publisher is that of `bench.load`, 4 Mbit/s
at 30 frames a second, plain in both cases. Refuses more than 25 s, as its viewers answer no pings.
"""

import argparse
import multiprocessing
import multiprocessing.synchronize
import os
import select
import socket
import ssl
import tempfile
import time
from pathlib import Path

import trustme
from tests.support.processes import free_port, running

from bench.load import load
from bench.servers import PENSTOCK, PENSTOCK_QUIET, START_DEADLINE_S
from bench.usage import cpu_s, memory, waited_s
from penstock.amf import write_amf0_values
from penstock.protocol.chunk_writer import write_standalone
from penstock.protocol.message import Message

MAX_SECONDS = 25
SETTLE_S = 2.0
KEY_TYPES = {"ecdsa": trustme.KeyType.ECDSA, "rsa": trustme.KeyType.RSA}
COMMANDS = (
    (0, ("connect", 1.0, {"app": "live", "tcUrl": "rtmps://localhost/live"})),
    (0, ("createStream", 2.0, None)),
    (1, ("play", 3.0, None, "bench0")),
)
PLAY_SCRIPT = b"\x03" + bytes(2 * 1536)
for _stream_id, _values in COMMANDS:
    PLAY_SCRIPT += write_standalone(Message(20, 0, _stream_id, write_amf0_values(*_values), 3), 128)


def watch(port: int, viewers: int, *, is_tls: bool, are_there: multiprocessing.synchronize.Event) -> None:
    """Read until the server closes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(viewers)]
    if is_tls:
        connections = [context.wrap_socket(each) for each in connections]
    readable = select.epoll()
    for each in connections:
        each.sendall(PLAY_SCRIPT)
        readable.register(each.fileno(), select.EPOLLIN)
    are_there.set()
    left = viewers
    while left:
        for descriptor, _ in readable.poll():
            if not os.read(descriptor, 256 * 1024):
                readable.unregister(descriptor)
                left -= 1


def measure(viewers: int, seconds: float, key_type: str | None) -> str:
    """One line about one way to send; no key type means without TLS."""
    ports = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        leaf = trustme.CA().issue_cert("localhost", key_type=KEY_TYPES[key_type or "ecdsa"])
        leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "both.pem"))
        (folder / "config").write_text(PENSTOCK_QUIET.format(flush="frame"), encoding="utf-8")
        command = [str(PENSTOCK), "serve", "--config", f"{folder}/config", "--data", f"{folder}/data"]
        command += ["--rtmp", f"127.0.0.1:{ports[0]}", "--rtmps", f"127.0.0.1:{ports[1]}", "--http", "none"]
        command += ["--cert", f"{folder}/both.pem", "--key", f"{folder}/both.pem", "--record", "none"]
        with running(command, folder / "output.log") as server:
            for port in ports:
                server.wait_for_port(port, START_DEADLINE_S)
            options = {"port": ports[0], "streams": 1, "name": "bench", "seconds": 0}
            with load("publish", options) as publisher:
                publisher.wait_for("ready", START_DEADLINE_S)
                return _watched(server.pid, ports[1 if key_type else 0], viewers, seconds, key_type)


def _watched(pid: int, port: int, viewers: int, seconds: float, key_type: str | None) -> str:
    are_there = multiprocessing.Event()
    options = {"is_tls": key_type is not None, "are_there": are_there}
    reader = multiprocessing.Process(target=watch, args=(port, viewers), kwargs=options, daemon=True)
    at_first = cpu_s(pid), memory(pid).pss_bytes
    reader.start()
    are_there.wait(START_DEADLINE_S)
    handshakes_s = cpu_s(pid) - at_first[0]
    time.sleep(SETTLE_S)
    began_at, cpu_before, waited_before = time.monotonic(), cpu_s(pid), waited_s(pid)
    time.sleep(seconds)
    elapsed_s = time.monotonic() - began_at
    used_s, waited = cpu_s(pid) - cpu_before, waited_s(pid) - waited_before
    held_kb = (memory(pid).pss_bytes - at_first[1]) / viewers / 1000
    reader.terminate()
    reader.join()
    return (
        f"{key_type or 'plain':6} {used_s / viewers / elapsed_s * 60:.4f} CPU-s per viewer-minute, "
        f"{handshakes_s / viewers * 1000:.2f} ms of CPU to shake hands, {held_kb:.0f} kB a viewer, "
        f"{used_s / elapsed_s:.0%} of a core, without a core for {waited / elapsed_s:.0%} of the time"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What TLS costs per viewer.")
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    for key_type in (None, *KEY_TYPES):
        print(measure(arguments.viewers, min(arguments.seconds, MAX_SECONDS), key_type), flush=True)


if __name__ == "__main__":
    main()
