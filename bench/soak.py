"""Ten minutes of coming and going: memory must stay flat, and no descriptor or segment may be left behind.

Waves of publishers and viewers come, are checked, and go, some politely and some by being killed; recording, facts and
JSON logs are on. Between waves, when the server should hold nothing, its memory and descriptors are read. Ends with
status 1 if a message was lost or damaged, or if anything grew. With `--kill-every-s` workers are killed at random under
a crowd that comes back (`soak_kills`). Run: `python -m bench.soak [--minutes 10] [--workers 2] [--kill-every-s 10]`.
"""

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, replace

from bench.load import load
from bench.servers import CONTESTANTS, PENSTOCK_ALL_ON, RunningServer, serving
from bench.soak_kills import run_with_kills
from bench.usage import descriptors, memory

STREAMS = 5
VIEWERS = 60
WAVE_S = 10
# The grace of a lost publisher, and one sweep of the server.
QUIET_S = 4.0
WARM_WAVES = 3
MAX_GROWTH_BYTES = 8_000_000
SHORT_GRACE = PENSTOCK_ALL_ON.replace("[defaults]\n", "[defaults]\ngrace_s = 1\n")


@dataclass(frozen=True, slots=True)
class Rest:
    """What the server holds between two waves."""

    pss_bytes: int
    memfd_bytes: int
    descriptors: int


def rest_of(server: RunningServer) -> Rest:
    held = memory(server.pid)
    return Rest(held.pss_bytes, held.memfd_bytes, descriptors(server.pid))


def wave(server: RunningServer, number: int) -> dict[str, int]:
    """One crowd. Every third one is cut off instead of saying goodbye."""
    media = {"port": server.port, "name": f"wave{number}", "streams": STREAMS}
    with load("publish", {**media, "seconds": 0, "video_bps": 500_000}) as publishers:
        publishers.wait_for("ready", 20)
        viewers_options = {**media, "connections": VIEWERS, "seconds": WAVE_S, "check_every": 1}
        with load("play", viewers_options) as viewers:
            result = viewers.result(WAVE_S + 40)
        if number % 3:
            publishers.stop()
    steady = result["steady"]
    return {
        "failed": result["failed"],
        "dropped": result["dropped"],
        "corrupt_messages": result["corrupt_messages"],
        "protocol_errors": result["protocol_errors"],
        **{name: steady[name] for name in ("missing", "reordered", "duplicates", "resumed_off_key")},
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to go on")
    parser.add_argument("--workers", type=int, default=1, help="media workers of the server")
    parser.add_argument("--kill-every-s", type=float, help="kill a worker at random each so often")
    arguments = parser.parse_args()
    if arguments.kill_every_s is not None:
        return soak_with_kills(arguments.workers, 60 * arguments.minutes, arguments.kill_every_s)
    ends_at = time.monotonic() + 60 * arguments.minutes
    rests: list[Rest] = []
    faults: list[str] = []
    contestant = replace(CONTESTANTS["penstock all on"], config=SHORT_GRACE, workers=arguments.workers)
    with serving(contestant, cpu=None) as server:
        number = 0
        while time.monotonic() < ends_at or len(rests) < WARM_WAVES + 2:
            number += 1
            counts = wave(server, number)
            time.sleep(QUIET_S)
            rest = rest_of(server)
            rests.append(rest)
            print(
                f"wave {number}: PSS {rest.pss_bytes / 1e6:.1f} MB, memfd {rest.memfd_bytes / 1e6:.1f} MB,"
                f" {rest.descriptors} descriptors, {counts}",
                flush=True,
            )
            faults += [f"wave {number}: {count} {name}" for name, count in counts.items() if count]
    faults += growth(rests[WARM_WAVES:], arguments.workers)
    for fault in faults:
        print(fault)
    print("soak failed" if faults else f"soak passed: {number} waves, {number * VIEWERS} viewers")
    return 1 if faults else 0


def soak_with_kills(workers: int, seconds: float, kill_every_s: float) -> int:
    """One crowd all the time. What workers hold cannot grow from one life to the next, but nothing may be left."""
    with serving(replace(CONTESTANTS["penstock all on"], workers=workers), cpu=None) as server:
        time.sleep(QUIET_S)
        before = rest_of(server)
        faults = run_with_kills(server, seconds, kill_every_s)
        # The default grace of those publishers that were cut off in the end.
        time.sleep(12.0 + QUIET_S)
        after = rest_of(server)
        print(f"before: {before}\nafter:  {after}")
    if after.memfd_bytes:
        faults.append(f"{after.memfd_bytes} bytes of segments are left behind")
    # Each worker may have a file of facts open.
    if after.descriptors > before.descriptors + 4:
        faults.append(f"descriptors grew from {before.descriptors} to {after.descriptors}")
    for fault in faults[:50]:
        print(fault)
    print("soak with kills failed" if faults else "soak with kills passed")
    return 1 if faults else 0


def growth(rests: list[Rest], workers: int) -> list[str]:
    """What the last third of the rests holds more than the first third."""
    third = max(1, len(rests) // 3)
    found = []
    before = statistics.median(rest.pss_bytes for rest in rests[:third])
    after = statistics.median(rest.pss_bytes for rest in rests[-third:])
    if after - before > MAX_GROWTH_BYTES:
        found.append(f"memory grew from {before / 1e6:.1f} to {after / 1e6:.1f} MB")
    if rests[-1].memfd_bytes:
        found.append(f"{rests[-1].memfd_bytes} bytes of segments are left behind")
    # One file of facts of each worker may be open or not.
    first, last = (statistics.median(rest.descriptors for rest in part) for part in (rests[:third], rests[-third:]))
    if last > first + workers:
        found.append(f"descriptors grew from {first:g} to {last:g}")
    return found


if __name__ == "__main__":
    sys.exit(main())
