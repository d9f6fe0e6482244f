"""What it costs to follow a log: CPU time of a flush where it is written, of telling it, and of taking it in elsewhere.

A stream of 25 frames/s with one audio message beside each frame; each flush has both. Each step is timed in rounds over
the same frames, and the best round counts, since machines are noisy. What a follower reads is compared with what was
written before anything is timed. Run: `python -m bench.following [--json]`.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.announcer import Announcer, Parcel
from penstock.relay.following import Released, decode_for_follower, decode_for_writer
from penstock.relay.follows import Follows, StreamChanged
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.readable_log import Flush, LogLimits
from penstock.relay.segment import SegmentBuffer
from penstock.serve.sending.memfd import FollowedBuffer, MemfdStore
from penstock.serve.streams.stream_table import shared_encoders

FLUSHES = 5000
ROUNDS = 9
FRAME_S = 0.04
KEY_FRAMES = 50
ROOM_BYTES = 1 << 20
VIDEO_BYTES = 12_500
AUDIO_BYTES = 300
ENCODERS = shared_encoders(65536)


@dataclass(frozen=True, slots=True)
class Figures:
    """CPU time in µs for each flush of one video and one audio message, and what is told of it."""

    write_us: float
    write_and_tell_us: float
    take_in_us: float
    message_bytes: float


def open_again(descriptor: int) -> FollowedBuffer:
    """A segment of another process, here of the same one."""
    return FollowedBuffer(os.dup(descriptor))


def open_segment(descriptor: int) -> SegmentBuffer:
    return open_again(descriptor)


def frames() -> list[tuple[Frame, Frame]]:
    key, inter = (head + bytes(VIDEO_BYTES) for head in (b"\x17\x01\x00\x00\x00", b"\x27\x01\x00\x00\x00"))
    audio = b"\xaf\x01" + bytes(AUDIO_BYTES)
    return [
        (
            frame_of(FrameKind.VIDEO, count * 40, key if count % KEY_FRAMES == 0 else inter),
            frame_of(FrameKind.AUDIO, count * 40, audio),
        )
        for count in range(FLUSHES)
    ]


def new_log() -> StreamLog:
    return StreamLog(MemfdStore(), ENCODERS, LogLimits(), LogBudget(1 << 30))


def write(log: StreamLog, pairs: list[tuple[Frame, Frame]], on_flush: Callable[[Flush, float], None] | None) -> None:
    for count, (video, audio) in enumerate(pairs):
        now = count * FRAME_S
        log.append(video, now)
        log.append(audio, now)
        flush = log.flush(now)
        if on_flush is not None and flush is not None:
            on_flush(flush, now)


def cpu_us(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e6 / FLUSHES


def write_alone(pairs: list[tuple[Frame, Frame]]) -> float:
    log = new_log()
    taken_us = cpu_us(lambda: write(log, pairs, None))
    log.close()
    return taken_us


def follow(pairs: list[tuple[Frame, Frame]], *, is_checked: bool = False) -> tuple[float, float, float]:
    """CPU time of writing with telling, and of taking in; bytes told. One round of the link for each flush."""
    log, announcer = new_log(), Announcer()
    follows = Follows(open_segment, ENCODERS, LogLimits())
    stream = announcer.follow(b"live/bench", 1, log, is_live=True)
    taken_in_s = 0.0
    told_bytes = 0

    def take_in(parcels: list[Parcel], expected: bytes | None) -> None:
        for body, descriptors in parcels:
            for event in follows.receive(decode_for_follower(body), descriptors):
                if isinstance(event, StreamChanged):
                    for flush in event.apply():
                        assert expected is None or flush.data == expected
        for data in follows.data_to_send():
            message = decode_for_writer(data)
            if isinstance(message, Released):
                announcer.release(message.segments)

    def on_flush(flush: Flush, now: float) -> None:
        nonlocal taken_in_s, told_bytes
        stream.on_flush(flush, now)
        parcels = announcer.take(ROOM_BYTES)
        told_bytes += sum(len(parcel.body) for parcel in parcels)
        started = time.process_time()
        take_in(parcels, flush.data if is_checked else None)
        taken_in_s += time.process_time() - started

    take_in(announcer.take(ROOM_BYTES), None)
    all_us = cpu_us(lambda: write(log, pairs, on_flush))
    announcer.close()
    log.close()
    taken_in_us = taken_in_s * 1e6 / FLUSHES
    return all_us - taken_in_us, taken_in_us, told_bytes / FLUSHES


def clock_us() -> float:
    """What it costs to look at the clock: it is part of what was measured, once for each flush."""
    return min(cpu_us(lambda: [time.process_time() for _ in range(FLUSHES)]) for _ in range(ROUNDS))


def measure() -> Figures:
    pairs = frames()
    follow(pairs[:1000], is_checked=True)
    alone: list[float] = []
    both: list[tuple[float, float, float]] = []
    for _ in range(ROUNDS):
        alone.append(write_alone(pairs))
        both.append(follow(pairs))
    look_us = clock_us()
    write_and_tell_us, take_in_us, message_bytes = (min(column) for column in zip(*both, strict=True))
    return Figures(min(alone), write_and_tell_us - look_us, take_in_us - look_us, message_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.following", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of text")
    figures = measure()
    if parser.parse_args().json:
        print(json.dumps(asdict(figures), indent=2))
        return
    print(f"a flush of one video and one audio message, {VIDEO_BYTES + AUDIO_BYTES} bytes, into shared memory:")
    print(f"  appended and flushed               {figures.write_us:6.2f} µs")
    print(f"  the same, and told to a follower   {figures.write_and_tell_us:6.2f} µs")
    print(f"  taken in by the follower           {figures.take_in_us:6.2f} µs")
    print(f"  told by                            {figures.message_bytes:6.0f} bytes")


if __name__ == "__main__":
    main()
