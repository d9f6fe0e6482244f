"""penstock bench: a swarm of publishers and viewers against a server, in one process, every message checked.

Viewers join once the streams are there. A publisher that has sent its last frame waits until its viewers have it, a
short while at most, and ends its stream. Latency is from the moment before a frame is given to the socket to the moment
after the viewer has it, both on this machine's clock, so it holds for a server far away too. One process has one core:
its own share of CPU is reported, and near 100 % the figures speak of the swarm, not of the server.

Refuses any address that is not of this machine, since a load test of somebody else's server is an attack. Where it is
allowed all the same, a swarm stays within a small bound.
"""

import argparse
import asyncio
import contextlib
import ipaddress
import math
import socket
import sys
import time
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.amf import printable
from penstock.client import PublishStream, Timeouts, play, publish, read_address
from penstock.errors import MalformedInput, PenstockError
from penstock.media.frame import FrameKind
from penstock.tools import FAILURE, WRONG_USE
from penstock.tools.bench_media import BenchMedia, Latencies, ViewerTally, planned_frames
from penstock.tools.pace import Pacer
from penstock.tools.report import Json, bit_rate_text, rounded, write_json
from penstock.tools.running import until_interrupted

REMOTE_MAX_CONNECTIONS: Final = 20
REMOTE_MAX_SECONDS: Final = 30.0
# There is a key frame each second, and every viewer should meet one.
LEAST_SECONDS: Final = 2.0

_PERCENTS: Final = (50, 90, 99, 100)
_TAIL_S: Final = 3.0
_POLL_S: Final = 0.02
# So many connections are opened at once; a swarm that all knocks together measures the listen queue.
_OPENING: Final = 16
_SHOWN_FAILURES: Final = 10
_TIMEOUTS: Final = Timeouts(silence_s=15.0)


async def main(arguments: argparse.Namespace) -> int:
    """Run the swarm and tell what it measured. Anything missing, broken or refused is a failure."""
    if misuse := misuse_of(arguments):
        sys.stderr.write(f"penstock bench: {misuse}\n")
        return WRONG_USE
    swarm = Swarm(arguments.url, arguments.publishers, arguments.viewers, arguments.seconds, arguments.bitrate)
    await until_interrupted(swarm.run())
    report = swarm.report()
    if arguments.json:
        write_json(report, sys.stdout)
    else:
        _write_table(report, Console())
    return 0 if report["is_clean"] else FAILURE


def misuse_of(arguments: argparse.Namespace) -> str | None:
    """Why this swarm may not run; None if it may."""
    if arguments.seconds < LEAST_SECONDS:
        return f"{arguments.seconds:g} s are too short for viewers to meet a key frame; at least {LEAST_SECONDS:g}"
    try:
        host = read_address(arguments.url).host
        is_here = is_loopback(host)
    except (MalformedInput, OSError, ValueError) as fault:
        return f"{printable(arguments.url)}: {printable(str(fault))}"
    if is_here:
        return None
    limit = f"at most {REMOTE_MAX_CONNECTIONS} connections for {REMOTE_MAX_SECONDS:g} s"
    if not arguments.allow_remote:
        return f"{host} is another machine; use --allow-remote if it is yours to load: {limit}"
    connections = arguments.publishers * (1 + arguments.viewers)
    if connections > REMOTE_MAX_CONNECTIONS or arguments.seconds > REMOTE_MAX_SECONDS:
        return f"{connections} connections for {arguments.seconds:g} s to another machine; {limit}"
    sys.stderr.write(f"penstock bench: {host} is another machine: {limit}\n")
    return None


def is_loopback(host: str) -> bool:
    """Whether every address of a host is one of this machine alone."""
    addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in addresses)


class Swarm:
    """Publishers and viewers, and what came of them."""

    def __init__(self, url: str, publishers: int, viewers: int, seconds: float, bits_per_second: int) -> None:
        self._url = url
        self._publishers = publishers
        self._viewers = viewers
        self._seconds = seconds
        self._bits_per_second = bits_per_second
        self._media = BenchMedia.make()
        self._latencies = Latencies()
        self._tallies: list[ViewerTally] = []
        self._sent: list[dict[FrameKind, int]] = [{} for _ in range(publishers)]
        self._sent_bytes = 0
        self._failures: list[str] = []
        self._opening = asyncio.Semaphore(_OPENING)
        self._wall_s = 0.0
        self._cpu_s = 0.0

    async def run(self) -> None:
        """Publish and play, to the end of all."""
        wall_s, cpu_s = time.monotonic(), time.process_time()
        try:
            async with asyncio.TaskGroup() as group:
                for publisher in range(self._publishers):
                    group.create_task(self._publish(publisher))
        finally:
            self._wall_s, self._cpu_s = time.monotonic() - wall_s, time.process_time() - cpu_s

    async def _publish(self, publisher: int) -> None:
        viewers: list[asyncio.Task[None]] = []
        tallies = [ViewerTally(publisher) for _ in range(self._viewers)]
        self._tallies += tallies
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with self._opening:
                    stream = await stack.enter_async_context(publish(self._stream_url(publisher), timeouts=_TIMEOUTS))
                viewers += [asyncio.create_task(self._view(tally)) for tally in tallies]
                await self._send_all(stream, publisher)
                await self._wait_for_tail(publisher, tallies, viewers)
        except PenstockError as fault:
            self._failures.append(f"publisher {publisher}: {fault}")
        finally:
            for viewer in viewers:
                viewer.cancel()
            await asyncio.gather(*viewers, return_exceptions=True)

    async def _send_all(self, stream: PublishStream, publisher: int) -> None:
        for setup in self._media.setup():
            await stream.send(setup)
        pacer = Pacer()
        for planned in planned_frames(self._bits_per_second, self._seconds):
            await asyncio.sleep(pacer.delay_s(planned.timestamp_ms, time.monotonic()))
            frame = self._media.frame(planned, publisher, time.monotonic_ns())
            await stream.send(frame)
            self._sent[publisher][planned.kind] = planned.sequence + 1
            self._sent_bytes += len(frame.payload)

    async def _wait_for_tail(
        self, publisher: int, tallies: list[ViewerTally], viewers: list[asyncio.Task[None]]
    ) -> None:
        """Give viewers the time to get all that was sent, then count what they lack."""
        sent = self._sent[publisher]
        give_up_at_s = time.monotonic() + _TAIL_S
        while time.monotonic() < give_up_at_s and any(
            tally.lacks(sent) and not viewer.done() for tally, viewer in zip(tallies, viewers, strict=True)
        ):
            await asyncio.sleep(_POLL_S)
        for tally in tallies:
            tally.end(sent)

    async def _view(self, tally: ViewerTally) -> None:
        asked_at_ns = time.monotonic_ns()
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with self._opening:
                    stream = await stack.enter_async_context(
                        play(self._stream_url(tally.publisher), timeouts=_TIMEOUTS)
                    )
                tally.join(asked_at_ns, time.monotonic_ns())
                async for frame in stream:
                    if frame.is_setup or frame.kind is FrameKind.DATA:
                        continue
                    now_ns = time.monotonic_ns()
                    latency_ms = tally.add(frame.kind, self._media.check(frame), len(frame.payload), now_ns)
                    if latency_ms is not None:
                        self._latencies.add(latency_ms)
        except PenstockError as fault:
            self._failures.append(f"viewer of stream {tally.publisher}: {fault}")

    def _stream_url(self, publisher: int) -> str:
        address, mark, query = self._url.partition("?")
        return f"{address}-{publisher}{mark}{query}"

    def report(self) -> Json:
        """Everything that was measured."""
        gaps = sum(tally.gaps for tally in self._tallies)
        corruptions = sum(tally.corruptions for tally in self._tallies)
        first_frames = sorted(each.first_frame_ms for each in self._tallies if each.first_frame_ms is not None)
        received_bytes = sum(tally.payload_bytes for tally in self._tallies)
        return {
            "url": printable(self._url),
            "publishers": self._publishers,
            "viewers": len(self._tallies),
            "seconds": rounded(self._wall_s),
            "stream_bitrate_bps": self._bits_per_second,
            "sent_messages": sum(sum(sent.values()) for sent in self._sent),
            "sent_bytes": self._sent_bytes,
            "received_messages": sum(tally.messages for tally in self._tallies),
            "received_bytes": received_bytes,
            "received_bps": rounded(received_bytes * 8 / self._wall_s if self._wall_s else None, 0),
            "gaps": gaps,
            "missing_messages": sum(tally.missing_messages for tally in self._tallies),
            "corruptions": corruptions,
            "failures": [printable(failure) for failure in self._failures],
            "latency_ms": {f"p{percent}": rounded(self._latencies.percentile_ms(percent), 1) for percent in _PERCENTS},
            "first_frame_ms": {f"p{percent}": _percentile(first_frames, percent) for percent in _PERCENTS},
            "swarm_cpu_percent": rounded(self._cpu_s / self._wall_s * 100 if self._wall_s else None, 1),
            "is_clean": not (gaps or corruptions or self._failures) and len(first_frames) == len(self._tallies),
        }


def _percentile(ordered_ms: list[float], percent: int) -> float | int | None:
    if not ordered_ms:
        return None
    return rounded(ordered_ms[max(math.ceil(len(ordered_ms) * percent / 100) - 1, 0)], 1)


def _write_table(report: Json, console: Console) -> None:
    table = Table("measured", "value", title=Text(report["url"]), title_justify="left")
    swarm = f"{report['publishers']} publishers, {report['viewers']} viewers, {report['seconds']:g} s"
    table.add_row("swarm", swarm)
    table.add_row("sent", f"{report['sent_messages']} messages, {report['sent_bytes']} bytes")
    received = f"{report['received_messages']} messages, {report['received_bytes']} bytes"
    table.add_row("received", f"{received}, {bit_rate_text(report['received_bps'])}")
    table.add_row("gaps", f"{report['gaps']} ({report['missing_messages']} messages missing)")
    table.add_row("corruptions", str(report["corruptions"]))
    for name, label in (("latency_ms", "latency"), ("first_frame_ms", "first frame")):
        table.add_row(label, ", ".join(f"{key} {value} ms" for key, value in report[name].items()))
    table.add_row("CPU of the swarm", f"{report['swarm_cpu_percent']} %")
    for failure in report["failures"][:_SHOWN_FAILURES]:
        table.add_row("failure", Text(failure))
    console.print(table)
