"""What a viewer of HLS costs beside one of RTMP: the same stream from the same server, in turns.

    python -m bench.hls [--viewers 300] [--seconds 20] [--rounds 2] [--peer NAME=PID,RTMP_PORT,HTTP_PORT,PATH]

Owns the order of the turns and the arithmetic. Rows: RTMP; low-latency HLS with parts of 200 ms; classic HLS; classic
HLS of the same segments as files, served by Debian's nginx; classic HLS of nginx-rtmp, which takes the stream in and
cuts it too; and other servers, as low-latency HLS if their playlist has parts. The stream is H.264 and AAC of 4 Mbit/s
at 30 frames a second with a key frame every two seconds, made once by FFmpeg and published again and again. CPU seconds
are those of the server with all its processes, ingest and packaging included; clients and FFmpeg do not count. nginx
with files does neither, so what the stream costs with one viewer of classic HLS is measured too, and told apart.
"""

import argparse
import multiprocessing
import re
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.nginx_rtmp import MODULE_PATHS
from tests.support.processes import RunningProgram, find_program, free_port, running

from bench.hls_viewers import watch as watch_hls
from bench.peers import Peer, add_peers
from bench.rtmps import watch as watch_rtmp
from bench.servers import PENSTOCK, PENSTOCK_QUIET, START_DEADLINE_S
from bench.usage import cpu_s, with_descendants

SETTLE_S = 3.0
FILE_SECONDS = 30
MAX_SECONDS = 40
FILES_KEPT = 12
NGINX_CONFIG = """\
{modules}
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log error;
events {{ worker_connections 4096; }}
{rtmp}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    types {{ application/vnd.apple.mpegurl m3u8; video/mp4 m4s mp4; video/mp2t ts; }}
    server {{ listen 127.0.0.1:{port}; root {folder}/files; }}
}}
"""
NGINX_RTMP = """rtmp {{
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        chunk_size 4096;
        application live {{ live on; hls on; hls_path {folder}/files; hls_fragment 2s; hls_playlist_length 12s; }}
    }}
}}
"""


def make_file(folder: Path) -> Path:
    """The stream, encoded once."""
    path = folder / "stream.flv"
    command = [find_program("ffmpeg", "ffmpeg"), "-loglevel", "error", "-y"]
    command += ["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30", "-f", "lavfi", "-i", "sine=sample_rate=48000"]
    command += ["-t", str(FILE_SECONDS), "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "60"]
    command += ["-b:v", "4M", "-minrate", "4M", "-maxrate", "4M", "-bufsize", "4M", "-nal-hrd", "cbr"]
    command += ["-pix_fmt", "yuv420p", "-c:a", "aac", "-f", "flv", str(path)]
    with running(command, folder / "encoding.log") as program:
        program.wait_for_exit(120.0)
    return path


@contextmanager
def publishing(file: Path, port: int, folder: Path, stream: str = "bench0") -> Iterator[None]:
    """The file, in real time, again and again."""
    command = [find_program("ffmpeg", "ffmpeg"), "-loglevel", "error", "-re", "-stream_loop", "-1", "-i", str(file)]
    command += ["-c", "copy", "-f", "flv", f"rtmp://127.0.0.1:{port}/live/{stream}"]
    with running(command, folder / "publisher.log"):
        yield


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=40) as answer:
        body: bytes = answer.read()
        return body


class Row:
    """Some viewers in a process of their own, and the CPU time of the server meanwhile."""

    def __init__(
        self,
        name: str,
        pid: int,
        run: Callable[..., None],
        arguments: tuple[Any, ...],
        beside: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`beside`: what has to go on meanwhile, and would disturb other rows."""
        self.name = name
        self.beside = beside
        self.pid = pid
        self.run = run
        self.arguments = arguments
        self.per_viewer_minute: list[float] = []
        self.remarks: list[str] = []

    def measure(self, viewers: int, seconds: float) -> None:
        with self.beside():
            self._measure(viewers, seconds)

    def _measure(self, viewers: int, seconds: float) -> None:
        are_there = multiprocessing.Event()
        results: Any = multiprocessing.Queue()
        is_hls = self.run is watch_hls
        arguments: tuple[Any, ...]
        if is_hls:
            port, path, is_low_latency = self.arguments
            arguments = port, path, viewers, is_low_latency, seconds + SETTLE_S + 2, are_there, results
            options: dict[str, Any] = {}
        else:
            arguments = *self.arguments, viewers
            options = {"is_tls": False, "are_there": are_there}
        reader = multiprocessing.Process(target=self.run, args=arguments, kwargs=options, daemon=True)
        reader.start()
        are_there.wait(START_DEADLINE_S)
        time.sleep(SETTLE_S)
        began_at, before_s = time.monotonic(), cpu_s(self.pid)
        time.sleep(seconds)
        used_s, elapsed_s = cpu_s(self.pid) - before_s, time.monotonic() - began_at
        if is_hls:
            result = results.get(timeout=30)
            if result["failure"]:
                self.remarks.append(result["failure"])
            watched_s = (seconds + SETTLE_S + 2) * viewers
            rate_mbps = 8e-6 * result["media_bytes"] / watched_s
            answers_per_s = (result["media_answers"] + result["playlist_answers"]) / watched_s
            self.remarks.append(f"{rate_mbps:.2f} Mbit/s, {answers_per_s:.1f} answers/s a viewer")
        reader.terminate()
        reader.join()
        self.per_viewer_minute.append(60 * used_s / viewers / elapsed_s)


class Files:
    """The same segments as files: copied while the stream goes on, the playlist renamed into place.

    Only while these are asked for: what the copies cost is not to count where the server itself is measured.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._folder = folder
        self._is_over = multiprocessing.Event()
        self._process = multiprocessing.Process(target=self._copy, daemon=True)

    def __enter__(self) -> "Files":
        playlist = self._folder / "files" / "live" / "classic.m3u8"
        playlist.parent.mkdir(parents=True, exist_ok=True)
        playlist.unlink(missing_ok=True)
        self._process.start()
        give_up_at = time.monotonic() + START_DEADLINE_S
        while not playlist.exists() and time.monotonic() < give_up_at:
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._process.join()

    def _copy(self) -> None:
        root = self._folder / "files" / "live"
        while not self._is_over.wait(0.5):
            text = get(self._port, "/live/bench0/classic.m3u8").decode()
            names = [line for line in text.splitlines() if not line.startswith("#")]
            names += re.findall(r'MAP:URI="([^"]+)"', text)
            for name in names:
                path = root / name
                if not path.exists():
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(get(self._port, f"/live/bench0/{name}"))
            (root / "new").write_text(text, encoding="utf-8")
            (root / "new").rename(root / "classic.m3u8")


@contextmanager
def serving(folder: Path) -> Iterator[tuple[RunningProgram, int, int]]:
    rtmp, http = free_port(), free_port()
    (folder / "config").write_text(PENSTOCK_QUIET.format(flush="auto"), encoding="utf-8")
    command = [str(PENSTOCK), "serve", "--config", f"{folder}/config", "--data", f"{folder}/data"]
    command += ["--rtmp", f"127.0.0.1:{rtmp}", "--http", f"127.0.0.1:{http}", "--record", "none"]
    with running(command, folder / "output.log") as server:
        for port in (rtmp, http):
            server.wait_for_port(port, START_DEADLINE_S)
        yield server, rtmp, http


@contextmanager
def nginx(folder: Path, rtmp_port: int | None = None) -> Iterator[tuple[RunningProgram, int]]:
    """Of the folder's `files`; with an RTMP port it makes them itself."""
    port = free_port()
    folder.mkdir(exist_ok=True)
    (folder / "files").mkdir(exist_ok=True)
    modules = rtmp = ""
    if rtmp_port is not None:
        modules = f"load_module {next(path for path in MODULE_PATHS if path.exists())};"
        rtmp = NGINX_RTMP.format(port=rtmp_port, folder=folder)
    config = NGINX_CONFIG.format(modules=modules, rtmp=rtmp, folder=folder, port=port)
    (folder / "nginx.conf").write_text(config, encoding="utf-8")
    command = [find_program("nginx", "nginx-light"), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
    with running([*command, "-p", str(folder)], folder / "nginx.log") as program:
        program.wait_for_port(port, START_DEADLINE_S)
        yield program, port


@contextmanager
def nginx_rtmp(folder: Path, file: Path) -> Iterator[Row]:
    """The stream published to it."""
    rtmp_port = free_port()
    with nginx(folder, rtmp_port) as (program, port), publishing(file, rtmp_port, folder):
        yield Row("classic HLS, nginx-rtmp", program.pid, watch_hls, (port, "/bench0.m3u8", False))


@contextmanager
def other_server(peer: Peer, file: Path, folder: Path) -> Iterator[Row]:
    """The stream published to it, and watched as its playlist allows."""
    if peer.path is None:
        raise SystemExit(f"--peer {peer.name}: which playlist? NAME=PID,RTMP_PORT,HTTP_PORT,PATH")
    folder.mkdir()
    with publishing(file, peer.port, folder):
        time.sleep(3 * SETTLE_S)
        is_low_latency = b"#EXT-X-PRELOAD-HINT" in get(peer.http_port, peer.path)
        name = f"{'low-latency' if is_low_latency else 'classic'} HLS, {peer.name}"
        yield Row(name, peer.pid, watch_hls, (peer.http_port, peer.path, is_low_latency))


def main() -> None:
    parser = argparse.ArgumentParser(description="What a viewer of HLS costs.")
    parser.add_argument("--viewers", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=2)
    add_peers(parser)
    options = parser.parse_args()
    seconds = min(options.seconds, MAX_SECONDS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        file = make_file(folder)
        server, rtmp, http = stack.enter_context(serving(folder))
        stack.enter_context(publishing(file, rtmp, folder))
        others = [stack.enter_context(nginx_rtmp(folder / "nginx-rtmp", file))]
        others += [stack.enter_context(other_server(peer, file, folder / peer.name)) for peer in options.peer]
        time.sleep(3 * SETTLE_S)
        get(http, "/live/bench0.m3u8?wait_s=20")
        peer, peer_port = stack.enter_context(nginx(folder))
        files = partial(Files, http, folder)
        rows = [
            Row("RTMP", server.pid, watch_rtmp, (rtmp,)),
            Row("low-latency HLS", server.pid, watch_hls, (http, "/live/bench0/low.m3u8", True)),
            Row("classic HLS", server.pid, watch_hls, (http, "/live/bench0/classic.m3u8", False)),
            Row("classic HLS, nginx, files", peer.pid, watch_hls, (peer_port, "/live/classic.m3u8", False), files),
        ]
        print(f"{options.viewers} viewers, {len(with_descendants(server.pid))} processes", flush=True)
        alone = [Row(f"{row.name}, one viewer", row.pid, row.run, row.arguments, row.beside) for row in rows[2:]]
        for _ in range(options.rounds):
            for row in (*rows, *others):
                row.measure(options.viewers, seconds)
            for row in alone:
                row.measure(1, seconds)
    told = (*rows, *others, *alone)
    medians = {row.name: statistics.median(row.per_viewer_minute) for row in told}
    for row in told:
        turns = ", ".join(f"{each:.4f}" for each in row.per_viewer_minute)
        print(f"{row.name:37} {medians[row.name]:.4f} CPU-s per viewer-minute ({turns}); {'; '.join(row.remarks)}")
    low, classic = medians["low-latency HLS"], medians["classic HLS"]
    by_rtmp, by_files = low / medians["RTMP"], classic / medians[rows[3].name]
    print(f"low-latency HLS to RTMP {by_rtmp:.2f}, classic HLS to nginx {by_files:.2f}")
    for row in others:
        ours_to_it = (low if row.name.startswith("low") else classic) / medians[row.name]
        print(f"ours, ingest and packaging included, to {row.name}: {ours_to_it:.2f}")
    ours, theirs = (
        (options.viewers * medians[row.name] - medians[one.name]) / (options.viewers - 1)
        for row, one in zip(rows[2:], alone, strict=True)
    )
    print(f"each further viewer of classic HLS {ours:.4f}, of nginx {theirs:.4f}: {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
