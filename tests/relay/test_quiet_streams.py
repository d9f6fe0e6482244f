"""A thousand quiet streams stay small: memory as the kernel counts it, in a process of their own."""

import subprocess
import sys
import textwrap

STREAMS_S = 30
MAX_BYTES = 150_000_000

PROGRAM = textwrap.dedent(
    """
    import os, re, resource, sys
    from penstock.config_sources import load_config
    from penstock.media.frame import FrameKind, frame_of
    from penstock.relay.log import LogBudget, StreamLog
    from penstock.serve.configured import settings_of
    from penstock.serve.settings import AppSettings
    from penstock.serve.sending.fan_out import FanOut
    from penstock.serve.streams.live_stream import LiveStream
    from penstock.serve.sending.memfd import MemfdStore
    from tests.relay.support import ENCODERS

    def pss_bytes():
        with open("/proc/self/smaps_rollup") as rollup:
            return 1024 * int(re.search(r"^Pss:\\s+(\\d+)", rollup.read(), re.MULTILINE)[1])

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    seconds = int(sys.argv[1])
    before = pss_bytes()
    settings = settings_of(load_config(None, {}, {}))
    budget, store = LogBudget(settings.max_total_log_bytes), MemfdStore()
    app, fan_out = AppSettings(), FanOut(None)
    streams = [
        LiveStream(
            f"live/{number}",
            "live",
            app,
            log=StreamLog(store, ENCODERS, settings.log_limits, budget),
            fan_out=fan_out,
            owner=None,
            now=0.0,
        )
        for number in range(1000)
    ]
    for quarter in range(4 * seconds):
        now = quarter / 4
        frames = [frame_of(FrameKind.AUDIO, 250 * quarter + 23 * number, bytes(372)) for number in range(11)]
        for stream in streams:
            for frame in frames:
                stream.append(frame, now)
            stream.flush(now)
    blocks = 0
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if os.path.exists(path) and "penstock-log" in os.readlink(path):
            blocks += 512 * os.stat(path).st_blocks
    print(pss_bytes() - before, blocks)
    """
)


def test_a_thousand_audio_streams_of_128_kbit_stay_within_150_mb() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(STREAMS_S)], capture_output=True, text=True, check=True, timeout=120
    )
    pss_bytes, memfd_bytes = map(int, run.stdout.split())
    assert memfd_bytes > 10_000_000, "the streams are in shared memory"
    assert pss_bytes + memfd_bytes < MAX_BYTES
