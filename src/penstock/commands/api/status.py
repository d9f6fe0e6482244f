"""`penstock status`: what a running server does, on a terminal or as JSON.

Owns the table. It is drawn by rich where that is installed, and as plain columns elsewhere. Texts of peers are shown
only as far as they can be printed: a terminal would take the rest for orders.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, Final

from penstock.commands.api.client import ApiClient, ApiFailure, add_url_argument

HELP = "show streams, viewers and verdicts of a running server"
_EVERY_S: Final = 2.0
_COLUMNS: Final = ("stream", "viewers", "bitrate", "fps", "video", "audio", "up", "rec", "verdict")
_RIGHT: Final = frozenset(("viewers", "bitrate", "fps", "up"))
_WRAPPED: Final = frozenset(("video", "audio"))
_MAX_CELL: Final = 60
_MAX_LINE: Final = 200

Status = dict[str, Any]
"""`server`, `streams` and `pushes`, as the API answers them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--watch", action="store_true", help="go on every two seconds, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print JSON; with --watch a line each time")
    add_url_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    client = ApiClient(arguments.url)
    try:
        if arguments.watch:
            with _lines() if arguments.json else _screen() as show:
                watch(client, show)
        else:
            status = read_status(client)
            sys.stdout.write(_json(status, indent=2) if arguments.json else "".join(_drawn(status)))
    except ApiFailure as failure:
        sys.stderr.write(f"penstock status: {failure}\n")
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    return 0


def read_status(client: ApiClient) -> Status:
    """What the server does now."""
    lists = {name: list(client.items(f"/{name}")) for name in ("streams", "pushes")}
    return {"server": client.get("/server"), **lists}


def watch(client: ApiClient, show: Callable[[Status], None], pause: Callable[[float], None] = time.sleep) -> None:
    """Show it again and again. A server that is away is waited for, unless it was never there."""
    status = read_status(client)
    while True:
        show(status)
        pause(_EVERY_S)
        try:
            status = read_status(client)
        except ApiFailure as failure:
            status = {**status, "failure": str(failure)}


@contextmanager
def _lines() -> Iterator[Callable[[Status], None]]:
    def show(status: Status) -> None:
        sys.stdout.write(_json(status))
        sys.stdout.flush()

    yield show


@contextmanager
def _screen() -> Iterator[Callable[[Status], None]]:
    if find_spec("rich") is None or not sys.stdout.isatty():

        def show(status: Status) -> None:
            clear = "\x1b[H\x1b[2J" if sys.stdout.isatty() else ""
            sys.stdout.write(clear + "".join(plain_lines(status)) + ("" if clear else "\n"))
            sys.stdout.flush()

        yield show
        return
    from rich.live import Live

    with Live(screen=True, auto_refresh=False) as live:
        yield lambda status: live.update(_rich(status), refresh=True)


def _drawn(status: Status) -> Iterator[str]:
    if find_spec("rich") is None or not sys.stdout.isatty():
        yield from plain_lines(status)
        return
    from rich.console import Console

    console = Console()
    with console.capture() as captured:
        console.print(_rich(status))
    yield captured.get()


def _rich(status: Status) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    # Frames would cost 28 of 80 columns. Names and verdicts come first; codecs go on in the next line.
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=name not in _WRAPPED)
    for row in rows_of(status):
        cells = [Text(cell) for cell in row]
        cells[-1].stylize("green" if row[-1] == "healthy" else "yellow")
        table.add_row(*cells)
    lines = [*advice_of(status), *pushes_of(status)]
    return Group(Text(headline(status)), table, *(Text(line) for line in lines))


def plain_lines(status: Status) -> Iterator[str]:
    """The same without colours and frames."""
    yield headline(status) + "\n"
    rows = [_COLUMNS, *rows_of(status)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        cells = [
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip() + "\n"
    for line in (*advice_of(status), *pushes_of(status)):
        yield line + "\n"


def headline(status: Status) -> str:
    """The server in one line."""
    server = status["server"]
    if "failure" in status:
        return _printable(f"{server['server_id']}: {status['failure']}", _MAX_LINE)
    complaint = f" ({server['complaint']})" if server["complaint"] else ""
    parts = (
        f"{server['server_id']}: {server['state']}{complaint}",
        f"up {_since(server['started_at'])}",
        *(_counted(server[name], name) for name in ("workers", "connections", "viewers", "streams")),
    )
    return _printable(", ".join(parts), _MAX_LINE)


def rows_of(status: Status) -> list[tuple[str, ...]]:
    """A row for each stream, those with most viewers first."""
    streams = sorted(status["streams"], key=lambda each: (-each["viewers"], each["app"], each["stream"]))
    return [tuple(_printable(cell) for cell in _cells(each)) for each in streams]


def advice_of(status: Status) -> list[str]:
    """Where streams come from that are not published here, and what to do about what is wrong."""
    pulled = [
        _printable(f"{each['app']}/{each['stream']}: pulled from {each['publisher']['pulled_from']}", _MAX_LINE)
        for each in status["streams"]
        if each["publisher"] is not None and each["publisher"].get("pulled_from") is not None
    ]
    return pulled + [
        _printable(f"{each['app']}/{each['stream']}: {advice}", _MAX_LINE)
        for each in status["streams"]
        for advice in each["advice"]
    ]


def pushes_of(status: Status) -> list[str]:
    """A line for each target of a push, and for each stream that it is sent."""
    lines = []
    for each in status.get("pushes", ()):
        target = f"push {each['name']} to {each['address']}"
        sessions = [f"{target}: {_session(session)}" for session in each["sessions"]]
        lines += sessions or [f"{target}: nothing to send"]
    return [_printable(line, _MAX_LINE) for line in lines]


def _session(session: dict[str, Any]) -> str:
    text = f"{session['app']}/{session['stream']} {session['state']}"
    if session["state"] == "live":
        return f"{text}, {session['sent_bytes'] / 1_000_000:.1f} MB, {session['lag_ms'] or 0} ms behind"
    return f"{text}, {session['attempts']} tries" + (f": {session['last_error']}" if session["last_error"] else "")


def _cells(stream: dict[str, Any]) -> Iterator[str]:
    video, audio = stream["video"], stream["audio"]
    yield f"{stream['app']}/{stream['stream']}" + ("" if stream["state"] == "live" else f" ({stream['state']})")
    yield str(stream["viewers"])
    yield _rate(stream["bitrate_bps"])
    yield f"{stream['fps']:.1f}"
    yield "" if video is None else video["codec"] + (f" {video['width']}x{video['height']}" if video["width"] else "")
    rate_hz = None if audio is None else audio["sample_rate_hz"]
    yield "" if audio is None else audio["codec"] + (f" {rate_hz / 1000:g} kHz" if rate_hz else "")
    yield _since(stream["started_at"])
    yield "rec" if stream["is_recording"] else ""
    yield stream["verdict"]


def _counted(number: int, names: str) -> str:
    return f"{number} {names if number != 1 else names.removesuffix('s')}"


def _rate(bits_per_s: int) -> str:
    return f"{bits_per_s / 1_000_000:.1f} Mbit/s" if bits_per_s >= 1_000_000 else f"{bits_per_s // 1000} kbit/s"


def _since(moment: str) -> str:
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()))
    days, seconds = divmod(seconds, 86_400)
    text = f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{days} d {text}" if days else text


def _printable(text: str, most: int = _MAX_CELL) -> str:
    kept = "".join(each if each.isprintable() else "�" for each in text)
    return kept if len(kept) <= most else kept[: most - 1] + "…"


def _json(status: Status, indent: int | None = None) -> str:
    return json.dumps(status, indent=indent) + "\n"
