"""What access costs one who publishes: the same publish to an open server, with a key, and with a token, in turns.

    python -m bench.access [--publishes 300] [--keys 100]

Owns the clients, which stop the time from their publish to its answer. The servers run side by side, and are asked one
after the other, so that whatever else the machine does falls on all of them. The key is the last of many. Refuses more
than 2,000 publishes of each kind.
"""

import argparse
import json
import secrets
import socket
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import jwt
from tests.support.penstock_server import STARTED
from tests.support.processes import RunningProgram, running

from bench.servers import START_DEADLINE_S
from penstock.access.keys import KEY_BYTES, key_line, make_key
from penstock.amf import write_amf0_values
from penstock.protocol.chunk_writer import write_standalone
from penstock.protocol.message import Message

MAX_PUBLISHES = 2000
DEADLINE_S = 10.0
QUIET = "[facts]\nenabled = false\n"
HANDSHAKE_BYTES = 1 + 2 * 1536


def command(stream_id: int, *values: object) -> bytes:
    return write_standalone(Message(20, 0, stream_id, write_amf0_values(*values), 3), 128)  # type: ignore[arg-type]


CONNECT = (
    b"\x03" + bytes(2 * 1536) + command(0, "connect", 1.0, {"app": "live"}) + command(0, "createStream", 2.0, None)
)


def published_in_s(port: int, name: str) -> float:
    """From a publish to its answer."""
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(CONNECT)
        heard = b""
        # The answer to createStream is the last that comes by itself.
        while heard.count(b"_result") < 2:
            heard += client.recv(65536)
        publish = command(1, "publish", 3.0, None, name, "live")
        began_at = time.perf_counter()
        client.sendall(publish)
        heard = b""
        while b"NetStream.Publish." not in heard:
            piece = client.recv(65536)
            if not piece:
                raise RuntimeError("closed without an answer")
            heard += piece
        took_s = time.perf_counter() - began_at
    if b"NetStream.Publish.Start" not in heard:
        raise RuntimeError("refused")
    return took_s


def port_of(program: RunningProgram) -> int:
    program.wait_for_log(STARTED, START_DEADLINE_S)
    time.sleep(0.2)
    lines = [json.loads(line) for line in program.log_text().splitlines()]
    started = next(line for line in lines if line["msg"] == STARTED)
    return int(str(started["rtmp"]).rpartition(":")[2])


def start(stack: ExitStack, folder: Path, name: str, config: str) -> int:
    path = folder / f"{name}.toml"
    path.write_text(QUIET + config)
    places = ["--config", str(path), "--data", str(folder / name), "--rtmp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command_line = [sys.executable, "-m", "penstock", "serve", *places, "--log-format", "json"]
    return port_of(stack.enter_context(running(command_line, folder / f"{name}.log")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--publishes", type=int, default=300)
    parser.add_argument("--keys", type=int, default=100)
    arguments = parser.parse_args()
    publishes = min(arguments.publishes, MAX_PUBLISHES)
    keys = [make_key(secrets.token_bytes(KEY_BYTES)) for _ in range(arguments.keys)]
    lines = json.dumps([key_line(f"key{number}", key) for number, key in enumerate(keys)])
    secret = secrets.token_hex(32)
    claims = {"sub": "bench", "exp": int(time.time()) + 3600, "aud": "penstock"}
    token = jwt.encode({**claims, "penstock": {"actions": ["publish"], "streams": ["live/*"]}}, secret, "HS256")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "secret").write_text(secret)
        ways = {
            "open": (start(stack, folder, "open", ""), ""),
            "key": (
                start(stack, folder, "key", f'[access."*"]\npublish = ["key"]\nkeys = {lines}\n'),
                f"?key={keys[-1]}",
            ),
            "jwt": (
                start(stack, folder, "jwt", f'[auth]\njwt = "file:{folder}/secret"\n[access."*"]\npublish = ["jwt"]\n'),
                f"?token={token}",
            ),
        }
        took_s: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(publishes + 20):
            for way, (port, query) in ways.items():
                one_s = published_in_s(port, f"s{number}{query}")
                if number >= 20:
                    took_s[way].append(one_s)
    for way, each in took_s.items():
        median_ms, p99_ms = statistics.median(each) * 1000, statistics.quantiles(each, n=100)[98] * 1000
        print(f"{way:5} median {median_ms:6.2f} ms   p99 {p99_ms:6.2f} ms   of {len(each)} publishes")
    for way in ("key", "jwt"):
        added_ms = (statistics.median(took_s[way]) - statistics.median(took_s["open"])) * 1000
        print(f"{way} adds {added_ms:.2f} ms to the median")


if __name__ == "__main__":
    main()
