"""What a person reads who has just started the server on a terminal: where to publish, to watch and to look."""

from collections.abc import Mapping
from pathlib import Path

_EVERYWHERE = frozenset(("0.0.0.0", "::"))  # noqa: S104 - looked for, not listened at


def welcome(addresses: Mapping[str, tuple[str, int]], data: Path, recorded: tuple[str, ...]) -> str:
    """A few lines. `addresses` has host and port by scheme: rtmp, rtmps, http, https; web_http or web_https for a port
    of web's own."""
    apps = [f"{name}://{_place(*addresses[name])}/live" for name in ("rtmp", "rtmps") if name in addresses]
    streams = " or ".join(f"{app}/STREAM" for app in apps)
    rows = [
        ("publish", streams),
        ("", f"in OBS: server {apps[0]}, stream key STREAM"),
        ("play", f"{streams}, by VLC or ffplay"),
    ]
    pages = [name for name in addresses if name.startswith("web_")] or ["http", "https"]
    looks = [
        f"{name.removeprefix('web_')}://{_place(*addresses[name])}/healthz and /metrics"
        for name in pages
        if name in addresses
    ]
    rows += [("look", look) for look in looks]
    kept = f"records {', '.join(recorded)}" if recorded else "records nothing; see --record"
    rows.append(("files", f"{data}; {kept}"))
    if any(host in _EVERYWHERE for host, _ in addresses.values()):
        rows.append(("", "127.0.0.1 is this machine; from others, use its name or address"))
    rows.append(("stop", "Ctrl+C"))
    return "\n".join(("", *(f"  {label:7}  {text}" for label, text in rows), ""))


def _place(host: str, port: int) -> str:
    host = "127.0.0.1" if host in _EVERYWHERE else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
